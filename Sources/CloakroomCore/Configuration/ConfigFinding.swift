import NIOCore

/// A problem with a configuration value that is detected only when the value is used: an expired certificate, a key
/// that belongs to another certificate, an address in use. The configuration supplies the line of the value.
public struct ConfigFinding: Sendable, Equatable, CustomStringConvertible {
    /// The key of the value: names of sections, and indices of list items.
    public package(set) var key: [String]
    /// The problem. Contains no secret.
    public let message: String
    /// How to fix the problem.
    public let suggestion: String
    /// Whether the configuration can still be used.
    public let isWarning: Bool
    /// Whether it is only to be noted.
    package var isNote = false

    package init(key: [String], message: String, suggestion: String, isWarning: Bool = false) {
        self.key = key
        self.message = message
        self.suggestion = suggestion
        self.isWarning = isWarning
    }

    /// The problem and the suggestion, without the key: `message (suggestion)`.
    public var sentence: String {
        suggestion.isEmpty ? message : "\(message) (\(suggestion))"
    }

    /// The finding with its key but without its line: `key: message (suggestion)`.
    public var description: String { "\(key.joined(separator: ".")): \(sentence)" }
}

/// An error caused by one value of the configuration.
public protocol ConfigFindingError: Error {
    /// The value and its problem; `nil` if no value caused the error.
    var finding: ConfigFinding? { get }
}

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Describes for operators why an address cannot be listened on.
public enum ListenFailure {
    /// - Parameters:
    ///   - error: The error thrown by binding the address.
    ///   - address: The configured address.
    ///   - key: The key of the address.
    ///   - alternative: An alternative if another process uses the address; may be empty.
    public static func finding(
        _ error: any Error, address: HostAndPort, key: [String], alternative: String = ""
    ) -> ConfigFinding {
        let (message, suggestion) = words(error, address: address, alternative: alternative)
        return ConfigFinding(key: key, message: message, suggestion: suggestion)
    }

    private static func words(
        _ error: any Error, address: HostAndPort, alternative: String
    ) -> (message: String, suggestion: String) {
        guard let error = error as? IOError else {
            return (
                "the host name \(address.host) cannot be resolved", "write an IP address of this machine, or 0.0.0.0"
            )
        }
        switch error.errnoCode {
        case EADDRINUSE:
            return (
                "address already in use: another process listens on \(address)",
                "stop that process, or choose another port" + (alternative.isEmpty ? "" : "; \(alternative)")
            )
        case EACCES, EPERM:
            return (
                "no permission to listen on port \(address.port)",
                "choose a port above 1023, or give the process CAP_NET_BIND_SERVICE, as deploy/systemd/cloakroom.service"
                    + " does"
            )
        case EADDRNOTAVAIL:
            return (
                "this machine has no address \(address.host)", "write one of its addresses, or 0.0.0.0 or [::] for all"
            )
        case EAFNOSUPPORT:
            return (
                "this machine does not support the address family of \(address.host)",
                "write an address of the other family"
            )
        case EMFILE, ENFILE:
            return ("too many open files to listen on \(address)", "raise the limit of open files")
        default:
            return (
                "cannot listen on \(address): \(String(cString: strerror(error.errnoCode)))",
                "choose another address or port"
            )
        }
    }
}
