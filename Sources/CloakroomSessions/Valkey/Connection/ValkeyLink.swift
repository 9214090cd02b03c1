import CloakroomCore
import NIOCore

/// This process's connection to one primary. It lasts as long as the connection; a reconnect makes a new link.
final class ValkeyLink: Sendable {
    let address: HostAndPort
    /// Where all keys are read, so that the server reports their changes.
    let connection: ValkeyConnection
    /// Writes what replicas of the server have to confirm; `nil` if none has to.
    private let writer: DurableWriter?

    /// - Parameters:
    ///   - durability: How writes are confirmed; `nil` if they are not.
    ///   - openUntracked: Opens a further connection to the same primary, without tracking.
    init(
        address: HostAndPort, connection: ValkeyConnection, durability: LinkDurability? = nil,
        openUntracked: @escaping @Sendable () async throws(ValkeyDisconnectReason) -> ValkeyConnection
    ) {
        self.address = address
        self.connection = connection
        writer = durability.map {
            DurableWriter($0.options, link: connection, log: $0.log, connect: openUntracked)
        }
        guard let writer else { return }
        let writing = Task { await writer.run() }
        connection.closed.whenComplete { _ in writing.cancel() }
    }

    /// Sends commands immediately, pipelined, and waits for all replies.
    /// - Parameter isDurable: Whether the commands change data that a failover should not lose.
    func send(_ commands: [ValkeyCommand], isDurable: Bool = false) async -> [Result<RESPValue, ValkeyCommandError>] {
        if isDurable, let writer { return await writer.send(commands) }
        return await connection.send(commands)
    }

    /// Sends a command whose slot the server is receiving. `ASKING` permits the next command of the same connection.
    func sendAsking(_ command: ValkeyCommand, isDurable: Bool) async -> Result<RESPValue, ValkeyCommandError> {
        if isDurable, let writer {
            return await writer.send([command], isAsking: true).first ?? .failure(.disconnected)
        }
        let replies = await connection.send([Self.asking, command])
        guard let reply = replies.last, replies.count == 2 else { return .failure(.disconnected) }
        return reply
    }

    static let asking = ValkeyCommand("ASKING")
}

/// How the writes of a link are confirmed.
struct LinkDurability: Sendable {
    let options: DurableWriter.Options
    let log: DurabilityLog
}

/// Receives what a server reports about keys that were read. Called on any event loop; never waits.
protocol ValkeyPushDelegate: Sendable {
    /// Whether cached data of these slots may be used. Without trust, all data of the slots that was read before is
    /// stale, also after they are trusted again.
    /// - Parameters:
    ///   - slots: In ascending order.
    ///   - areTrusted: `false` before a slot's connection changes; `true` after its new connection is ready.
    ///   - afterOutage: Whether the slots were unavailable, so that replicas may have data that they could not save.
    func slotsChanged(_ slots: [Range<Int>], areTrusted: Bool, afterOutage: Bool)
    func pushed(_ message: [RESPValue])
}

/// Writes again what a failover may have lost.
protocol ValkeyFailoverDelegate: Sendable {
    /// Called when slots have another server, or the same one again, after the connection was lost: before they are
    /// reported as trusted, and before commands of other callers reach the server. Cancelled after 1 s: what was not
    /// written by then, or was rejected, is left to the delegate.
    /// - Parameters:
    ///   - slots: In ascending order.
    ///   - send: Sends commands to the new server.
    func serverReplaced(
        _ slots: [Range<Int>],
        send: @escaping @Sendable ([ValkeyCommand]) async -> [Result<RESPValue, ValkeyCommandError>]) async
}

extension ValkeyFailoverDelegate {
    /// The maximum duration of ``serverReplaced(_:send:)``.
    static var limit: Duration { .seconds(1) }

    /// Calls ``serverReplaced(_:send:)`` and cancels it after ``limit``.
    func restore(_ slots: [Range<Int>], to link: ValkeyLink) async {
        try? await TimeLimit.run(Self.limit) { await serverReplaced(slots) { commands in await link.send(commands) } }
    }
}
