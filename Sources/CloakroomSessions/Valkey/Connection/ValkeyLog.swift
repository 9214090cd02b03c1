import CloakroomCore
import Logging
import Synchronization

/// Logs the state of the connection: once when it is established, and once for each reason for its loss. Keys, values
/// and passwords are not available here.
final class ValkeyLog: Sendable {
    private let logger: Logger
    private let addresses: String
    private let user: String
    /// The reasons logged since the connection was last established, by server; the empty string is the only one.
    private let loggedReasons = Mutex<[String: Set<String>]>([:])
    /// The maximum number of servers in ``loggedReasons`` and ``losses``.
    static let mostServers = 1_000
    /// The last loss of each server that is not connected, by the same names.
    private let losses = Mutex<[String: (reason: SessionStoreError.Reason, at: ContinuousClock.Instant)]>([:])
    /// The time after which a loss concerns a server that is not connected to any more: attempts fail more often.
    private let lossPeriod: Duration
    /// The maximum number of reasons that are logged for a server. Its own errors are among them, which it can invent.
    static let maximumReasons = 16

    init(_ configuration: ValkeyConfiguration, _ logger: Logger) {
        self.logger = logger
        addresses = configuration.addresses.map(\.description).joined(separator: ",")
        user = configuration.user ?? "default"
        lossPeriod = .seconds(15) + configuration.timeout * 2
    }

    /// The number of servers whose state is stored, counted for each of the two tables.
    var serverCount: Int { loggedReasons.withLock(\.count) + losses.withLock(\.count) }

    /// Why connections are missing; `nil` if none is, or if they are missing for different reasons.
    var outage: SessionStoreError.Reason? { outage(now: .now) }

    func outage(now: ContinuousClock.Instant) -> SessionStoreError.Reason? {
        losses.withLock { losses in
            let reasons = Set(losses.values.filter { now - $0.at <= lossPeriod }.map(\.reason))
            return reasons.count == 1 ? reasons.first : nil
        }
    }

    /// - Parameter server: The address, in a cluster; empty otherwise.
    func connected(_ address: String, server: String = "") {
        losses.withLock { losses in
            // Seeds are asked only while no majority of the servers is connected, and the server without a name before
            // it was known to be a cluster.
            losses = losses.filter { !$0.key.isEmpty && $0.key != server && !$0.key.hasPrefix(Self.seedPrefix) }
        }
        loggedReasons.withLock { $0[server] = nil }
        logger.notice("connected to the session store", metadata: ["address": "\(address)"])
    }

    /// Records that a server of a cluster is not needed any more, so that its loss explains nothing.
    func forgotten(server: String) {
        losses.withLock { $0[server] = nil }
    }

    /// Records that a seed of a cluster has replied.
    func resolved(_ address: String) {
        let name = Self.seed(address)
        losses.withLock { $0[name] = nil }
        loggedReasons.withLock { $0[name] = nil }
    }

    private static let seedPrefix = "seed "

    /// The name of a seed as a server.
    static func seed(_ address: String) -> String { seedPrefix + address }

    /// Logs that there is no connection, once for each reason, so that an outage does not fill the log.
    func disconnected(
        _ loss: ValkeyDisconnectReason, _ address: String?, server: String = "", now: ContinuousClock.Instant = .now
    ) {
        losses.withLock { losses in
            if losses[server] == nil, losses.count >= Self.mostServers { losses.removeAll() }
            losses[server] = (SessionStoreError.Reason(loss), now)
        }
        guard isFirst(loss.kind, server) else { return }
        var metadata: Logger.Metadata = ["address": "\(address ?? addresses)", "reason": "\(loss.kind)"]
        switch loss {
        case .unauthorized(let code, let command):
            metadata["user"] = "\(user)"
            metadata["command"] = "\(command)"
            metadata["hint"] = "\(Self.hint(code))"
            logger.error("session store authentication failed", metadata: metadata)
        case .unsupportedServer:
            metadata["hint"] = loss.advice.map { "\($0)" }
            logger.error("session store lacks a required command", metadata: metadata)
        case .wrongTopology:
            metadata["hint"] = loss.advice.map { "\($0)" }
            logger.error("session store has another topology than configured", metadata: metadata)
        case .tls(let error):
            metadata["error"] = "\(error)"
            metadata["hint"] = loss.advice.map { "\($0)" }
            logger.error("session store TLS handshake failed", metadata: metadata)
        default:
            if let advice = loss.advice { metadata["hint"] = "\(advice)" }
            logger.warning("the session store cannot be reached", metadata: metadata)
        }
    }

    /// Logs that too few sentinels respond to confirm the server.
    func notConfirmed(_ address: String) {
        logger.warning(
            "session store primary is not confirmed",
            metadata: [
                "address": "\(address)", "sentinels": "\(addresses)",
                "hint":
                    "fewer than half of the sentinels respond, so a failover may not be noticed: check the sentinels",
            ])
    }

    /// Logs the end of this state.
    func confirmed(_ address: String) {
        logger.notice("session store primary is confirmed again", metadata: ["address": "\(address)"])
    }

    /// Logs that the server rejected a required command.
    func rejected(_ command: ValkeyCommand, _ error: RESPError, _ address: String, server: String = "") {
        guard isFirst("\(error.code) \(command.name)", server) else { return }
        logger.error(
            "session store rejected a command",
            metadata: [
                "address": "\(address)", "reason": "\(error.code.lowercased())", "command": "\(command.name)",
                "user": "\(user)", "hint": "\(Self.hint(error.code))",
            ])
    }

    /// Whether a reason is not yet logged.
    private func isFirst(_ reason: String, _ server: String) -> Bool {
        loggedReasons.withLock { logged in
            if logged[server] == nil, logged.count >= Self.mostServers { logged.removeAll() }
            guard logged[server]?.count ?? 0 < Self.maximumReasons else { return false }
            return logged[server, default: []].insert(reason).inserted
        }
    }

    private static func hint(_ code: String) -> String {
        switch code {
        case "NOPERM": "grant the user the commands and keys documented for the session store (ACL SETUSER)"
        case "NOAUTH": "the server requires a password: configure user and password of the session store"
        default: "check user and password of the session store, and that the user exists on the server (ACL LIST)"
        }
    }
}
