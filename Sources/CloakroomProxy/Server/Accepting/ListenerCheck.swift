public import CloakroomCore
import NIOCore
import NIOPosix

/// Whether the addresses of a configuration can be listened on: asked before anything is started, so that all that cannot
/// are told at once. What counts is the listening itself, which may still fail.
public enum ListenerCheck {
    /// - Parameter takesOver: Whether addresses are shared with another gateway; then only the operators' is looked at.
    /// - Returns: What is wrong, one for each address.
    public static func findings(in plan: GatewayPlan, takesOver: Bool) async -> [ConfigFinding] {
        var findings: [ConfigFinding] = []
        if !takesOver {
            for (index, listener) in plan.listeners.enumerated() {
                if let error = await error(at: listener.address) {
                    findings.append(
                        ListenFailure.finding(
                            error, address: listener.address, key: ["listeners", "\(index)", "address"],
                            alternative: Listener.takeOver))
                }
            }
        }
        if let admin = plan.admin, let error = await error(at: admin.address) {
            findings.append(
                ListenFailure.finding(
                    error, address: admin.address, key: ["admin", "address"],
                    alternative: takesOver ? "a gateway that takes over needs an address of its own for operators" : "")
            )
        }
        return findings
    }

    private static func error(at address: HostAndPort) async -> (any Error)? {
        // The system chooses a free one.
        guard address.port != 0 else { return nil }
        do {
            let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .bind(to: try SocketAddress.makeAddressResolvingHost(address.host, port: address.port)).get()
            try await channel.close()
            return nil
        } catch {
            return error
        }
    }
}
