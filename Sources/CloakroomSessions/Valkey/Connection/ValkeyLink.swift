import CloakroomCore
import Logging
import NIOCore
import NIOSSL
import Synchronization

/// The link of this process to the server: connects, connects again, and sends commands while there is a connection.
///
/// Commands that come while there is none fail at once. They do not wait for it, so nothing falls upon a server that has
/// just come back but what is asked at that moment.
final class ValkeyClient: Sendable {
    private let connector: ValkeyConnector
    private let log: ValkeyLog
    private let connection = Mutex<ValkeyConnection?>(nil)

    init(_ configuration: ValkeyConfiguration, tls: NIOSSLContext?, eventLoop: any EventLoop, logger: Logger) {
        connector = ValkeyConnector(configuration, tls: tls, eventLoop: eventLoop)
        log = ValkeyLog(configuration, logger)
    }

    /// Sends commands at once and waits for all the answers.
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

    /// Lets commands go over a connection until it ends.
    private func use(_ connection: ValkeyConnection, _ listener: any ValkeyPushDelegate) async -> ValkeyDisconnectReason
    {
        await withTaskCancellationHandler {
            // Before it is told: who hears that the link stands finds it standing. What is read in between is stale once
            // that is told, as everything is that was read before.
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
