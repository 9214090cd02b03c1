public import NIOCore
import NIOPosix
import Synchronization

/// Resolves the addresses of a target with a host name. Shared by all event loops.
final class TargetResolver: Sendable {
    private struct State {
        var cache: DNSCache<SocketAddress>
        var waiting: [EventLoopPromise<[SocketAddress]>] = []
        var turn = 0
    }

    let host: String
    let port: Int
    let resolver: HostResolver
    private let state: Mutex<State>

    /// - Parameter interval: Refresh interval of addresses in use, in nanoseconds.
    init(host: String, port: Int, interval: UInt64, resolver: HostResolver) {
        self.host = host
        self.port = port
        self.resolver = resolver
        state = Mutex(State(cache: DNSCache(interval: interval)))
    }

    /// The addresses for one connection attempt, in the order to try them.
    /// - Parameter patience: How long to wait for a lookup if cached addresses exist.
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

    /// No address accepted a connection: the addresses may have changed.
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

/// Passes resolved addresses to NIO's connector, which implements the connection attempts of RFC 8305: the next attempt
/// starts after 250 ms or as soon as one fails, the first established connection is used, the others are closed.
///
/// All addresses are returned from the A query. With separate results the connector would always prefer IPv6, and
/// connections would not be spread over all addresses.
struct PreresolvedAddresses: Resolver, Sendable {
    let addresses: EventLoopFuture<[SocketAddress]>

    func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> { addresses }

    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        addresses.eventLoop.makeSucceededFuture([])
    }

    func cancelQueries() {}
}

/// Resolves host names.
public struct HostResolver: Sendable {
    /// Resolves all addresses of a host, of both address families. Called on an event loop, which it must not block.
    public let resolve: @Sendable (_ host: String, _ port: Int) -> EventLoopFuture<[SocketAddress]>

    /// Creates a resolver.
    public init(_ resolve: @escaping @Sendable (_ host: String, _ port: Int) -> EventLoopFuture<[SocketAddress]>) {
        self.resolve = resolve
    }

    /// The system resolver (`getaddrinfo`), called on a separate thread.
    public static let system = HostResolver { host, port in
        // Not on one of the gateway's event loops: the result may arrive after they have shut down.
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        let resolver = NIORandomizedDNSResolver(loop: eventLoop)
        // The AAAA query starts one lookup for both families.
        let version6 = resolver.initiateAAAAQuery(host: host, port: port)
        let version4 = resolver.initiateAQuery(host: host, port: port)
        return version6.and(version4).map { $0 + $1 }
    }
}
