import CloakroomCore
import Logging
import Synchronization

/// Says what becomes of the link: once when it stands, and once for each reason why it does not. Keys, values and
/// passwords are not known here.
final class ValkeyLog: Sendable {
    private let logger: Logger
    private let addresses: String
    private let user: String
    /// What was said since the link stood last.
    private let said = Mutex<Set<String>>([])

    init(_ configuration: ValkeyConfiguration, _ logger: Logger) {
        self.logger = logger
        addresses = configuration.addresses.map(\.description).joined(separator: ",")
        user = configuration.user ?? "default"
    }

    func connected(_ address: String) {
        said.withLock { $0.removeAll() }
        logger.notice("connected to the session store", metadata: ["address": "\(address)"])
    }

    /// There is no link. Said once for each reason, or an outage would fill the log.
    func disconnected(_ loss: ValkeyDisconnectReason, _ address: String?) {
        guard said.withLock({ $0.insert(loss.kind).inserted }) else { return }
        var metadata: Logger.Metadata = ["address": "\(address ?? addresses)", "reason": "\(loss.kind)"]
        switch loss {
        case .unauthorized(let code, let command):
            metadata["user"] = "\(user)"
            metadata["command"] = "\(command)"
            metadata["hint"] = "\(Self.hint(code))"
            logger.error("the session store refuses this gateway", metadata: metadata)
        case .unsupportedServer:
            metadata["hint"] = "Valkey, or Redis 6 or later, is needed"
            logger.error("the session store does not know a command that is needed", metadata: metadata)
        case .tls(let error):
            metadata["error"] = "\(error)"
            metadata["hint"] = "check the certificate's names, the certificates that are trusted, and the port"
            logger.error("TLS with the session store fails", metadata: metadata)
        default:
            logger.warning("the session store cannot be reached", metadata: metadata)
        }
    }

    /// The user may not do a command that is needed.
    func rejected(_ command: ValkeyCommand, _ error: RESPError, _ address: String) {
        guard said.withLock({ $0.insert("\(error.code) \(command.name)").inserted }) else { return }
        logger.error(
            "the session store refuses a command",
            metadata: [
                "address": "\(address)", "reason": "\(error.code.lowercased())", "command": "\(command.name)",
                "user": "\(user)", "hint": "\(Self.hint(error.code))",
            ])
    }

    private static func hint(_ code: String) -> String {
        switch code {
        case "NOPERM": "give the user the commands and keys that are documented for the session store (ACL SETUSER)"
        case "NOAUTH": "the server wants a password: configure user and password of the session store"
        default: "check user and password of the session store, and that the server knows the user (ACL LIST)"
        }
    }
}
