import NIOCore

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
