import CloakroomCore
import CloakroomSessions
import CloakroomTLS

/// What can be checked of the servers of the session store: connection, kind, mode and permissions.
struct StoreDiagnosis {
    let configuration: SessionConfiguration

    /// - Throws: If a file for TLS with the servers is invalid.
    func run() async throws -> [DoctorStep] {
        try await probe().map { finding in
            var step = DoctorStep("store at \(finding.address)", .passed, facts: finding.facts)
            if let problem = Self.problem(finding) {
                step.fail(problem, .init(key(finding.reason), advice(finding)))
            }
            return step
        }
    }

    /// The same for `check-config`: what prevents the use of a server, at the key that most probably has to change.
    /// - Throws: If a file for TLS with the servers is invalid.
    func findings() async throws -> [ConfigFinding] {
        try await probe().compactMap { finding in
            Self.problem(finding).map { problem in
                ConfigFinding(
                    key: key(finding.reason).split(separator: ".").map(String.init),
                    message: "the server at \(finding.address) cannot be used: \(problem)",
                    suggestion: advice(finding))
            }
        }
    }

    private func probe() async throws -> [ValkeyProbe.Finding] {
        let valkey = configuration.valkey
        let tls = try valkey.tls.map { try UpstreamTLS.configuration($0, protocols: []) }
        return try await ValkeyProbe(valkey, tls: tls).run()
    }

    private static func problem(_ finding: ValkeyProbe.Finding) -> String? {
        let reason = finding.reason?.rawValue ?? ""
        return finding.problem.map { $0.hasSuffix(reason) ? $0 : "\($0) (\(reason))" }
    }

    private func hasOnlyPassword(_ reason: SessionStoreError.Reason?) -> Bool {
        reason == .noAuth && configuration.valkey.user == nil
    }

    func advice(_ finding: ValkeyProbe.Finding) -> String {
        guard hasOnlyPassword(finding.reason) else { return finding.advice ?? "see the server's log" }
        return configuration.valkey.password == nil
            ? "the server requires a password: name a file that holds it" : "check the password, or write the user"
    }

    /// The key that most probably has to change.
    func key(_ reason: SessionStoreError.Reason?) -> String {
        switch reason {
        case _ where hasOnlyPassword(reason): "session.valkey.passwordFile"
        case .noAuth?, .noPermission?: "session.valkey.user"
        case .wrongTopology?: "session.valkey.topology"
        case .tls?: "session.valkey.tls"
        default: "session.valkey.addresses"
        }
    }
}
