import CloakroomCore
import NIOCore
import NIOPosix
import Synchronization

final class LoopContextGroup: Sendable {
    private let contexts: [ObjectIdentifier: NIOLoopBound<LoopContext>]
    private let eventLoops: [any EventLoop]

    init(
        group: MultiThreadedEventLoopGroup, config: ConfigSnapshot, loopCount: Int, limit: ConnectionLimit,
        time: LoopTime
    ) async throws {
        var contexts: [ObjectIdentifier: NIOLoopBound<LoopContext>] = [:]
        var eventLoops: [any EventLoop] = []
        var ordered: [NIOLoopBound<LoopContext>] = []
        let neighbours = LoopNeighbours()
        for (index, eventLoop) in group.makeIterator().enumerated() {
            eventLoops.append(eventLoop)
            let context = try await eventLoop.submit {
                let context = LoopContext(
                    eventLoop: eventLoop, config: config, loopCount: loopCount, index: index, neighbours: neighbours,
                    time: time)
                context.connectionLimit = limit
                context.start()
                return NIOLoopBound(context, eventLoop: eventLoop)
            }.get()
            contexts[ObjectIdentifier(eventLoop)] = context
            ordered.append(context)
        }
        self.contexts = contexts
        self.eventLoops = eventLoops
        neighbours.set(ordered, on: eventLoops)
    }

    /// One of the event loops.
    var any: any EventLoop { eventLoops.randomElement() ?? MultiThreadedEventLoopGroup.singleton.any() }

    /// The targets of an upstream have changed: all pools for it use the new ones when this returns.
    func targetsChanged(of targets: UpstreamTargets) async {
        await onEach { context in
            context.updateTime()
            for pool in context.pools(of: targets) { pool.targetsChanged() }
        }
    }

    /// Calls a function on each event loop, on one after the other.
    private func onEach(_ call: @escaping @Sendable (LoopContext) -> Void) async {
        for eventLoop in eventLoops {
            try? await eventLoop.submit { if let context = self.context(of: eventLoop) { call(context) } }.get()
        }
    }

    /// The context of an event loop. Must be called on that loop.
    func context(of eventLoop: any EventLoop) -> LoopContext? {
        contexts[ObjectIdentifier(eventLoop)]?.value
    }

    /// Activates a new configuration on all event loops.
    /// - Parameter onRetired: Called on any event loop when the last exchange with the old configuration has ended.
    func apply(_ config: ConfigSnapshot, onRetired: @escaping @Sendable () -> Void) async throws {
        guard let first = eventLoops.first else { return onRetired() }
        let retired = try await withThrowingTaskGroup(of: EventLoopFuture<Void>.self) { group in
            for eventLoop in eventLoops {
                group.addTask {
                    try await eventLoop.submit {
                        let promise = eventLoop.makePromise(of: Void.self)
                        guard let context = self.context(of: eventLoop) else {
                            promise.succeed()
                            return promise.futureResult
                        }
                        context.apply(config) { promise.succeed() }
                        return promise.futureResult
                    }.get()
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        EventLoopFuture.andAllComplete(retired, on: first).whenComplete { _ in onRetired() }
    }

    /// Returns when every event loop has run a task; never returns while one is blocked.
    func passThrough() async {
        for eventLoop in eventLoops { try? await eventLoop.submit {}.get() }
    }

    /// Checks the deadlines of all event loops.
    func tick() async { await onEach { $0.onTick() } }

    /// Drains TLS connections, so that clients reconnect.
    func drainTLS() async { await onEach { $0.drainTLS() } }

    /// Drains all client connections.
    /// - Parameter grace: For how long a connection that waits for a request may send one more.
    /// - Returns: Whether all were closed within the limit.
    func drain(within limit: Duration, grace: Duration) async -> Bool {
        let empty = eventLoops.map { eventLoop in
            let promise = eventLoop.makePromise(of: Void.self)
            eventLoop.execute {
                guard let context = self.context(of: eventLoop) else { return promise.succeed() }
                context.drain(grace: grace.wholeNanoseconds) { promise.succeed() }
            }
            return promise
        }
        guard let first = eventLoops.first else { return true }
        let timeout = first.makePromise(of: Bool.self)
        let timer = first.scheduleTask(in: .nanoseconds(Int64(clamping: limit.wholeNanoseconds))) {
            timeout.succeed(false)
        }
        EventLoopFuture.andAllComplete(empty.map(\.futureResult), on: first).whenComplete { _ in
            timer.cancel()
            timeout.succeed(true)
        }
        let isClean = (try? await timeout.futureResult.get()) ?? false
        // The promises are no longer observed.
        for promise in empty { promise.succeed() }
        return isClean
    }

    /// Closes the remaining connections and stops the timers of the loops.
    func stop() async {
        await onEach { context in
            context.closeAll()
            context.stop()
        }
    }
}

/// The event loops by number, so that one can send messages to another.
final class LoopNeighbours: Sendable {
    private struct Neighbour {
        let eventLoop: any EventLoop
        let context: NIOLoopBound<LoopContext>
    }

    private let loops = Mutex<[Neighbour]>([])

    func set(_ contexts: [NIOLoopBound<LoopContext>], on eventLoops: [any EventLoop]) {
        loops.withLock { $0 = zip(eventLoops, contexts).map { Neighbour(eventLoop: $0, context: $1) } }
    }

    /// Calls a function on another event loop, soon. Does nothing if there is no loop with the number.
    func send(to index: Int, _ call: @escaping @Sendable (LoopContext) -> Void) {
        guard let loop = loops.withLock({ $0.indices.contains(index) ? $0[index] : nil }) else { return }
        loop.eventLoop.execute {
            loop.context.value.updateTime()
            call(loop.context.value)
        }
    }
}
