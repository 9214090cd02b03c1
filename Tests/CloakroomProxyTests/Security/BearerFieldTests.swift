import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("The field in which an upstream expects tokens")
struct BearerFieldTests {
    private func serving(_ header: String, _ scheme: String) -> GatewaySetup {
        GatewaySetup.serving.configuration {
            $0.upstreams[0].bearer.header = header
            $0.upstreams[0].bearer.scheme = scheme
        }
    }

    @Test("Another scheme takes the place of Bearer")
    func scheme() async throws {
        let setup = serving("Authorization", "Token")
        let cookie = setup.sessions.add()
        try await setup.run { gateway in
            let client = try await gateway.client()
            try await expect(
                client.exchange(Ask.get("/private/a", cookie, "Authorization: Token forged")).status, equals: 200)
            let request = try await gateway.upstream.request()
            expect(request["Authorization"], equals: "Token \(Canary.accessToken)")
        }
    }

    @Test("A field of the upstream's own has the token alone, and clients cannot send it on any route")
    func ownField() async throws {
        let setup = serving("X-Auth-Token", "")
        let cookie = setup.sessions.add()
        try await setup.run { gateway in
            let client = try await gateway.client()
            let forged = ["X-Auth-Token: forged", "x_auth_token: forged"]
            try await expect(client.exchange(Ask.get("/private/a", cookie, forged[0], forged[1])).status, equals: 200)
            try await expect(client.exchange(Ask.get("/public/a", forged[0], forged[1])).status, equals: 200)
            let requests = gateway.upstream.requests
            expect(requests.map { $0["X-Auth-Token"] }, equals: [Canary.accessToken, nil])
            expect(requests.allSatisfy { $0["Authorization"] == nil && $0["X_Auth_Token"] == nil })
        }
    }
}
