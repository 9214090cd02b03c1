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
        var backoff = ExponentialBackoff()
        var generator = SystemRandomNumberGenerator()
        while !Task.isCancelled {
            do throws(ValkeyDisconnectReason) {
                let connection = try await connector.connect()
                let start = ContinuousClock.now
                let loss = await use(connection, listener)
                backoff.connectionEnded(after: ContinuousClock.now - start)
                if !Task.isCancelled { log.disconnected(loss, connection.address) }
            } catch {
                if !Task.isCancelled { log.disconnected(error, nil) }
            }
            try? await Task.sleep(for: backoff.next(using: &generator))
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

/// Exponential back-off between attempts to connect, with jitter, so that gateways which have lost a server at the same
/// moment do not reconnect at the same moment.
struct ExponentialBackoff: Sendable {
    /// The upper bound of the first wait.
    static let first = Duration.milliseconds(50)
    static let longest = Duration.seconds(5)
    /// A connection that lasted this long resets the back-off.
    static let resetAfter = Duration.seconds(5)

    private var limit = ExponentialBackoff.first

    init() {}

    mutating func next(using generator: inout some RandomNumberGenerator) -> Duration {
        let wait = limit * Double.random(in: 0...1, using: &generator)
        limit = min(limit * 2, Self.longest)
        return wait
    }

    /// Records how long a connection has lasted.
    mutating func connectionEnded(after time: Duration) {
        if time >= Self.resetAfter { self = ExponentialBackoff() }
    }
}
