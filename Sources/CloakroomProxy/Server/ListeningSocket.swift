import NIOCore
import ServiceLifecycle

struct ListeningSocket: Sendable {
    let channel: any Channel
    /// Inodes of the sockets that were listening on the address before this one.
    let predecessors: Set<UInt64>
    /// Whether the service manager keeps the socket open: its queue outlives this gateway.
    let isInherited: Bool

    /// The port that was bound.
    var port: Int? { channel.localAddress?.port }

    /// Begins to accept connections.
    func accept() async {
        // Fails only if the socket was closed, which ends serving.
        try? await channel.eventLoop.submit {
            try channel.pipeline.syncOperations.handler(type: AcceptHandler.self).begin()
        }.get()
    }

    /// Directs new connections to the other gateway that listens on the same address, if there is one.
    ///
    /// Closing the socket without this step would reset connections in its queue or in the middle of their TCP
    /// handshake, and new connections would still be assigned to it until it is closed. Supports two gateways at a
    /// time: an old one and a new one.
    func steerNewConnections() async {
        guard !isInherited, let address = channel.localAddress else { return }
        let members = ReuseportGroup.members(at: address)
        // Usually the new gateway replaces the old one, but the new one may also be stopped again.
        let other: ReuseportGroup.Slot = predecessors.isDisjoint(with: members) ? .second : .first
        // If this is not permitted, closing works as without it: some connections may be reset.
        try? await ReuseportGroup.steer(to: other, from: channel)
    }
}

extension ListeningSocket {
    /// Waits for graceful shutdown or cancellation, or until a socket is closed unexpectedly: the system closes a
    /// listening socket on an unrecoverable error, which would otherwise go unnoticed.
    /// - Returns: Whether shutdown was requested.
    static func waitForShutdown(_ sockets: [ListeningSocket]) async -> Bool {
        let closed = AsyncStream.makeStream(of: Void.self)
        for socket in sockets { socket.channel.closeFuture.whenComplete { _ in closed.continuation.yield() } }
        return await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                try? await gracefulShutdown()
                return true
            }
            group.addTask {
                for await _ in closed.stream { return false }
                return true
            }
            defer { group.cancelAll() }
            return await group.next() ?? true
        }
    }
}

/// Closes listening sockets without losing connections.
enum ListenerHandover {
    /// How long connections are still accepted, to cover TCP handshakes in progress and the queue.
    private static let time = Duration.milliseconds(200)
    /// Maximum duration if connections keep arriving.
    private static let limit = Duration.milliseconds(500)
    /// If no connection is accepted for this time, the queue is considered empty.
    private static let quiet = Duration.milliseconds(25)

    /// Closes listening sockets when their queues are empty.
    static func close(_ sockets: [ListeningSocket], limit connections: ConnectionLimit) async {
        let end = ContinuousClock.now + limit
        for socket in sockets { await socket.steerNewConnections() }
        // Returns at once if the task is cancelled, so cancellation is not delayed.
        try? await Task.sleep(for: time)
        var accepted = -1
        while accepted != connections.accepted, ContinuousClock.now < end, !Task.isCancelled {
            accepted = connections.accepted
            try? await Task.sleep(for: quiet)
        }
        for socket in sockets { try? await socket.channel.close() }
    }
}
