import NIOCore
import ServiceLifecycle

/// A listening socket while it stands.
struct ListeningSocket: Sendable {
    let channel: any Channel
    /// The sockets that listened on the address before this one.
    let predecessors: Set<UInt64>

    /// The port, as the system gave it.
    var port: Int? { channel.localAddress?.port }

    /// Connections that are begun from now on go to the other gateway that listens on the same address, if there is one.
    ///
    /// Closing alone would not do: what is in this socket's queue then, or half way through its handshake, would be
    /// reset, and new connections would go on being sent here until the very end. Counts on two gateways at a time: an
    /// old one and a new one.
    func steerNewConnections() async {
        guard let address = channel.localAddress else { return }
        let members = ReuseportGroup.members(at: address)
        // Usually the new one takes over from the old one, but a new one may also be taken back.
        let other: ReuseportGroup.Slot = predecessors.isDisjoint(with: members) ? .second : .first
        // Where that is not allowed, all is as without: some connections may be reset.
        try? await ReuseportGroup.steer(to: other, from: channel)
    }
}

extension ListeningSocket {
    /// Waits until the gateway is told to stop, one way or the other, or until a socket is closed without its doing: the
    /// system can do that on an error that no socket recovers from, and nobody would notice.
    /// - Returns: Whether it was told to.
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

/// How a gateway stops listening without losing connections.
enum ListenerHandover {
    /// How long connections are accepted on: for handshakes under way, and for the queue.
    private static let time = Duration.milliseconds(200)
    /// How long it may take in all, if connections keep coming.
    private static let limit = Duration.milliseconds(500)
    /// No connection for so long means that the queue is empty.
    private static let quiet = Duration.milliseconds(25)

    /// Closes listening sockets once nothing waits at them any more.
    static func close(_ sockets: [ListeningSocket], limit connections: ConnectionLimit) async {
        let end = ContinuousClock.now + limit
        for socket in sockets { await socket.steerNewConnections() }
        // A cancelled task does not sleep: who is in a hurry is not held up.
        try? await Task.sleep(for: time)
        var accepted = -1
        while accepted != connections.accepted, ContinuousClock.now < end, !Task.isCancelled {
            accepted = connections.accepted
            try? await Task.sleep(for: quiet)
        }
        for socket in sockets { try? await socket.channel.close() }
    }
}
