import CloakroomCore
import CloakroomSessions
import CloakroomTLS

/// What can be checked of the servers of the session store: connection, kind, mode and permissions.
struct StoreDiagnosis {
    let configuration: SessionConfiguration

    /// - Throws: If a file for TLS with the servers is invalid.
    func run() async throws -> [DoctorStep] {
        let valkey = configuration.valkey
        let tls = try valkey.tls.map { try UpstreamTLS.configuration($0, protocols: []) }
        return try await ValkeyProbe(valkey, tls: tls).run().map { finding in
            var step = DoctorStep("store at \(finding.address)", .passed, facts: finding.facts)
            if let problem = finding.problem {
                step.fail(
                    problem + (finding.reason.map { " (\($0.rawValue))" } ?? ""),
                    .init(key: Self.key(finding.reason), advice: finding.advice ?? "see the server's log"))
            }
            return step
        }
    }

    /// The key that most probably has to change.
    private static func key(_ reason: SessionStoreError.Reason?) -> String {
        switch reason {
        case .noAuth?, .noPermission?: "session.valkey.user"
        case .wrongTopology?: "session.valkey.topology"
        case .tls?: "session.valkey.tls"
        default: "session.valkey.addresses"
        }
    }
}
