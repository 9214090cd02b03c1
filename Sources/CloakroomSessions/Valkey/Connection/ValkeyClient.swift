import CloakroomCore
import Logging
import NIOCore
import NIOSSL
import Synchronization

/// This process's client of the server: connects, reconnects, and sends commands while there is a connection.
///
/// Without a connection, commands fail immediately. They are not queued, so a server that has just recovered receives
/// only the commands of that moment.
///
/// Folder `Connection/`: finds the server, connects, authenticates, reconnects, and matches replies to commands.
final class ValkeyClient: Sendable {
    private let connector: ValkeyConnector
    private let log: ValkeyLog
    private let link = Mutex<Link?>(nil)
    private let durability: DurableWriter.Options?
    private let durabilityLog: DurabilityLog
    private let failover: any ValkeyFailoverDelegate

    /// The connection for reads, and the writer for what a failover must not lose.
    private struct Link {
        let connection: ValkeyConnection
        let writer: DurableWriter?
    }

    init(
        _ configuration: ValkeyConfiguration, tls: NIOSSLContext?, eventLoop: any EventLoop, logger: Logger,
        durabilityLog: DurabilityLog, failover: any ValkeyFailoverDelegate
    ) {
        connector = ValkeyConnector(configuration, tls: tls, eventLoop: eventLoop)
        log = ValkeyLog(configuration, logger)
        durability = DurableWriter.Options(configuration)
        self.durabilityLog = durabilityLog
        self.failover = failover
    }

    /// Sends commands immediately and waits for all replies.
    /// - Parameter isDurable: Whether replicas of the server have to confirm the writes: ``DurableWriter``.
    func send(
        _ commands: [ValkeyCommand], isDurable: Bool = false
    ) async -> [Result<RESPValue, ValkeyCommandError>] {
        guard let link = link.withLock({ $0 }) else {
            return commands.map { _ in .failure(.notConnected) }
        }
        let connection = link.connection
        let replies =
            if isDurable, let writer = link.writer { await writer.send(commands) } else {
                await connection.send(commands)
            }
        for (command, reply) in zip(commands, replies) {
            if case .failure(.rejected(let error)) = reply, error.code == "NOPERM" {
                log.rejected(command, error, connection.address)
            }
        }
        return replies
    }

    /// Stays connected until the task is cancelled.
    func run(_ listener: any ValkeyPushDelegate) async {
        var delay = ReconnectDelay()
        var generator = SystemRandomNumberGenerator()
        while !Task.isCancelled {
            do throws(ValkeyDisconnectReason) {
                let connection = try await connector.connect()
                let start = ContinuousClock.now
                // The server may be another one than before, or have lost writes in a restart.
                await failover.serverReplaced([HashSlot.all]) { await connection.send($0) }
                let loss = await use(connection, listener)
                delay.connectionEnded(after: ContinuousClock.now - start)
                if !Task.isCancelled { log.disconnected(loss, connection.address) }
            } catch {
                if !Task.isCancelled { log.disconnected(error, nil) }
            }
            try? await Task.sleep(for: delay.next(using: &generator))
        }
    }

    /// Uses a connection for commands until it ends.
    private func use(_ connection: ValkeyConnection, _ listener: any ValkeyPushDelegate) async -> ValkeyDisconnectReason
    {
        let writer = durability.map { [connector] options in
            DurableWriter(options, link: connection, log: durabilityLog) { () async throws(ValkeyDisconnectReason) in
                try await connector.connectUntracked(to: connection.server)
            }
        }
        let writing = Task { await writer?.run() }
        // Not awaited: it may be connecting, and the next connection must not wait for that.
        defer { writing.cancel() }
        return await withTaskCancellationHandler {
            // Set before the listener is notified, so that a notified listener finds the connection. Data that is read
            // in between becomes stale with the notification, like all data that was read before.
            link.withLock { $0 = Link(connection: connection, writer: writer) }
            log.connected(connection.address)
            _ = await connection.activate(to: listener)
            let loss = (try? await connection.closed.get()) ?? .unreachable
            link.withLock { $0 = nil }
            return loss
        } onCancel: {
            connection.close(.closed)
        }
    }
}

/// The delays between attempts to connect.
struct ReconnectDelay: Sendable {
    private static let backoff = ExponentialBackoff(initial: .milliseconds(50), maximum: .seconds(5), jitter: 1)
    /// A connection that lasted this long resets the back-off.
    private static let resetAfter = Duration.seconds(5)

    private var failures = 0

    mutating func next(using generator: inout some RandomNumberGenerator) -> Duration {
        failures += 1
        return Self.backoff.delay(afterFailures: failures, random: generator.next())
    }

    /// Records how long a connection has lasted.
    mutating func connectionEnded(after time: Duration) {
        if time >= Self.resetAfter { failures = 0 }
    }
}
