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
    private let connection = Mutex<ValkeyConnection?>(nil)

    init(_ configuration: ValkeyConfiguration, tls: NIOSSLContext?, eventLoop: any EventLoop, logger: Logger) {
        connector = ValkeyConnector(configuration, tls: tls, eventLoop: eventLoop)
        log = ValkeyLog(configuration, logger)
    }

    /// Why there is no connection, if one was lost or could not be established.
    var outage: SessionStoreError.Reason? { log.outage }

    /// Sends commands immediately and waits for all replies.
    func send(_ commands: [ValkeyCommand]) async -> [Result<RESPValue, ValkeyCommandError>] {
        guard let connection = connection.withLock({ $0 }) else {
            return commands.map { _ in .failure(.notConnected) }
        }
        let replies = await connection.send(commands)
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
        await withTaskCancellationHandler {
            // Set before the listener is notified, so that a notified listener finds the connection. Data that is read
            // in between becomes stale with the notification, like all data that was read before.
            self.connection.withLock { $0 = connection }
            log.connected(connection.address)
            _ = await connection.activate(to: listener)
            let loss = (try? await connection.closed.get()) ?? .unreachable
            self.connection.withLock { $0 = nil }
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
