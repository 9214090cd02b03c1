import NIOCore
import NIOPosix
import Synchronization

/// The addresses of a target that is given by name, shared by all event loops.
final class TargetResolver: Sendable {
    private struct State {
        var cache: DNSCache<SocketAddress>
        var waiting: [EventLoopPromise<[SocketAddress]>] = []
        var turn = 0
    }

    let host: String
    let port: Int
    private let resolver: HostResolver
    private let state: Mutex<State>

    /// - Parameter interval: How old addresses may get while they are in use, in nanoseconds.
    init(host: String, port: Int, interval: UInt64, resolver: HostResolver) {
        self.host = host
        self.port = port
        self.resolver = resolver
        state = Mutex(State(cache: DNSCache(interval: interval)))
    }

    /// The addresses to try for one connection, in that order.
    /// - Parameter patience: How long to wait for new ones where there are old ones.
    func forConnection(on eventLoop: any EventLoop, patience: TimeAmount) -> EventLoopFuture<[SocketAddress]> {
        let now = NIODeadline.now().uptimeNanoseconds
        let (turn, use, promise, old) = state.withLock { state in
            state.turn &+= 1
            let use = state.cache.use(now: now)
            var promise: EventLoopPromise<[SocketAddress]>?
            switch use {
            case .use, .useAndResolve: break
            case .resolve, .wait:
                let waiting = eventLoop.makePromise(of: [SocketAddress].self)
                state.waiting.append(waiting)
                promise = waiting
            }
            return (state.turn &- 1, use, promise, state.cache.addresses)
        }
        switch use {
        case .useAndResolve, .resolve: resolve()
        case .use, .wait: break
        }
        guard let promise else { return eventLoop.makeSucceededFuture(Self.order(old, turn: turn)) }
        if !old.isEmpty {
            let timer = eventLoop.scheduleTask(in: patience) { promise.succeed(old) }
            promise.futureResult.whenComplete { _ in timer.cancel() }
        }
        return promise.futureResult.map { Self.order($0, turn: turn) }
    }

    /// None of the addresses took a connection: perhaps there are others by now.
    func markSuspect() {
        let now = NIODeadline.now().uptimeNanoseconds
        state.withLock { $0.cache.markSuspect(now: now) }
    }

    private func resolve() {
        resolver.resolve(host, port).whenComplete { result in
            let now = NIODeadline.now().uptimeNanoseconds
            let found = (try? result.get()) ?? []
            let (waiting, addresses) = self.state.withLock { state in
                state.cache.resolved(found, now: now)
                defer { state.waiting = [] }
                return (state.waiting, state.cache.addresses)
            }
            for promise in waiting {
                if addresses.isEmpty, case .failure(let error) = result {
                    promise.fail(error)
                } else {
                    promise.succeed(addresses)
                }
            }
        }
    }

    private static func order(_ addresses: [SocketAddress], turn: Int) -> [SocketAddress] {
        HappyEyeballsOrder.make(addresses, turn: turn) { address in
            if case .v6 = address { true } else { false }
        }
    }
}

/// Hands addresses that are known already to NIO's connector, which does the rest of RFC 8305: the next attempt after a
/// quarter of a second or as soon as one fails, the first that stands wins, the others are closed.
///
/// All of them go as answers to the one query, for between two the connector would always prefer IPv6 and connections
/// would not go round.
struct PreresolvedAddresses: Resolver, Sendable {
    let addresses: EventLoopFuture<[SocketAddress]>

    func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> { addresses }

    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        addresses.eventLoop.makeSucceededFuture([])
    }

    func cancelQueries() {}
}
