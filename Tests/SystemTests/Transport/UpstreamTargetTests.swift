import MockAPI
import NIOCore
import TestSupport
import Testing

/// Sign-ins and forwarded requests use the same targets with the same settings.
@Suite("Targets of the upstream", .serialized, .timeLimit(.minutes(3)))
struct UpstreamTargetTests {
    private func signsIn(_ gateway: GatewayProcess) async throws {
        let client = gateway.client
        let signIn = try await client.signIn()
        expect(signIn.status, equals: 200, "\(signIn.body)")
        let user = try await client.get("/user")
        expect(user.status, equals: 200, "\(user.body)")
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
