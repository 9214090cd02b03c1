import MockAPI
import NIOCore
import TestSupport
import Testing

@testable import cloakroom_demo

/// Sign-ins and forwarded requests use the same targets with the same settings.
@Suite("Targets of the upstream", .serialized, .timeLimit(.minutes(3)))
struct UpstreamTargetTests {
    private func servingTLS(
        _ set: [String], host: String = "localhost", _ body: (GatewayProcess, RunningMockAPI) async throws -> Void
    ) async throws {
        let certificate = try DemoCertificate()
        defer { certificate.remove() }
        try await MockAPI.withServer(.withTwoUsers) { mock in
            try await Relay.running(to: mock.port, certificate: certificate) { port in
                let set = set.map { $0.replacing("CA", with: certificate.certificateFile) }
                try await GatewayProcess.running(GatewayYAML(upstream: "https://\(host):\(port)"), set: set) {
                    gateway in
                    try await body(gateway, mock)
                }
            }
        }
    }

    private func signsIn(_ gateway: GatewayProcess) async throws {
        let client = gateway.client
        let signIn = try await client.signIn()
        #expect(signIn.status == 200, "\(signIn.body)")
        let user = try await client.get("/user")
        #expect(user.status == 200, "\(user.body)")
    }

    @Test(
        "With a certificate of the configured authority, sign-ins and forwarded requests work",
        arguments: [
            ("localhost", ["upstreams.api.tls.caFile=CA"]), ("127.0.0.1", ["upstreams.api.tls.caFile=CA"]),
            ("127.0.0.1", ["upstreams.api.tls.caFile=CA", "upstreams.api.tls.serverName=localhost"]),
        ])
    func trusted(host: String, set: [String]) async throws {
        try await servingTLS(set, host: host) { gateway, mock in
            try await signsIn(gateway)
            #expect(mock.observations.snapshot().count("POST", "/auth") == 1)
            #expect(mock.observations.snapshot().count("GET", "/user") == 2)
        }
    }

    @Test(
        "An upstream that cannot prove its identity receives neither passwords nor tokens, and sign-ins are 502",
        arguments: [[], ["upstreams.api.tls.caFile=CA", "upstreams.api.tls.serverName=other.test"]])
    func untrusted(set: [String]) async throws {
        try await servingTLS(set) { gateway, mock in
            let client = gateway.client
            for response in [try await client.signIn(), try await client.get("/episodes")] {
                #expect(response.status == 502)
                #expect(response.problem?.code == "unreachable")
            }
            #expect(mock.observations.snapshot().recent.isEmpty)
        }
    }

    @Test("Sign-ins and forwarded requests work through a Unix domain socket")
    func unixSocket() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "api.sock")
        try await MockAPI.withServer(.withTwoUsers) { mock in
            try await Relay.running(to: mock.port, at: try SocketAddress(unixDomainSocketPath: path)) { _ in
                try await GatewayProcess.running(GatewayYAML(upstream: "unix:\(path)")) { try await signsIn($0) }
            }
        }
    }
}
