public import CloakroomCore
import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Checks whether the addresses of a configuration can be bound, before anything is started, so that all failures are
/// reported together. Binding may still fail later.
public enum ListenerCheck {
    /// - Parameter sharesListeners: Whether addresses are shared with another gateway; then only the admin address is
    ///   checked.
    /// - Parameter inherited: Sockets of the service manager, whose addresses are in use.
    /// - Returns: At most one finding per address.
    public static func findings(
        in configuration: GatewayConfiguration, sharesListeners: Bool, inherited: InheritedSockets = InheritedSockets()
    ) -> [ConfigFinding] {
        var findings = inherited.findings(for: configuration.listeners)
        if !sharesListeners {
            for (index, listener) in configuration.listeners.enumerated() where !inherited.contains(listener.address) {
                if let error = error(at: listener.address) {
                    findings.append(
                        ListenFailure.finding(
                            error, address: listener.address, key: ["listeners", "\(index)", "address"],
                            alternative: Listener.takeOver))
                }
            }
        }
        if let admin = configuration.admin, let error = error(at: admin.address) {
            findings.append(
                ListenFailure.finding(
                    error, address: admin.address, key: ["admin", "address"],
                    alternative: sharesListeners
                        ? "a gateway started with --take-over needs its own admin address" : "")
            )
        }
        return findings
    }

    /// Binds a socket and closes it. It never listens: clients that connect meanwhile are refused instead of being
    /// accepted and closed. With `SO_REUSEADDR` the address is in use only if another socket listens on it (socket(7),
    /// ip(7)).
    private static func error(at address: HostAndPort) -> (any Error)? {
        // Port 0: the system selects a free port.
        guard address.port != 0 else { return nil }
        do {
            let place = try SocketAddress.makeAddressResolvingHost(address.host, port: address.port)
            let family = place.withSockAddr { pointer, _ in Int32(pointer.pointee.sa_family) }
            let descriptor = socket(family, Int32(SOCK_STREAM.rawValue), 0)
            guard descriptor >= 0 else { throw IOError(errnoCode: errno, reason: "socket") }
            defer { _ = close(descriptor) }
            var isEnabled: Int32 = 1
            let size = socklen_t(MemoryLayout<Int32>.size)
            guard setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isEnabled, size) == 0 else {
                throw IOError(errnoCode: errno, reason: "setsockopt")
            }
            let result = place.withSockAddr { bind(descriptor, $0, socklen_t($1)) }
            guard result == 0 else { throw IOError(errnoCode: errno, reason: "bind") }
            return nil
        } catch {
            return error
        }
    }
}
