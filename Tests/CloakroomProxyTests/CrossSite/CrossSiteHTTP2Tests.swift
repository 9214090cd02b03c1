import NIOHPACK
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Cross-site requests and CORS over HTTP/2", .serialized)
struct CrossSiteHTTP2Tests {
    private static let vary = ["Origin, Access-Control-Request-Method, Access-Control-Request-Headers"]

    private static func run(
        _ configuration: CrossSiteConfiguration = CrossSiteConfiguration(), reply: String = Reply.ok,
        body: (RunningGateway, HTTP2Client, (String, String)) async throws -> Void
    ) async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        try await GatewaySetup([.request, .send(reply), .again]).with(\.sessions, sessions)
            .http2 { $0.crossSite = configuration }
            .run { gateway in
                try await body(gateway, gateway.http2(), CookieLine.field(cookie))
            }
    }

    @Test("A cross-site request with the cookie is 403 cross_site, and the upstream receives nothing")
    func rejected() async throws {
        try await Self.run { gateway, client, cookie in
            var id: UInt32 = 1
            for fields in [
                [("origin", "https://evil.test")], [("origin", "null")], [("sec-fetch-site", "cross-site")],
                [("origin", "http://gateway.test"), ("origin", "http://gateway.test")],
            ] {
                for path in ["/private/a", "/auth"] {
                    var request = HTTP2Fields.post(path, cookie)
                    request.lines += HTTP2Fields(fields).lines
                    let response = try await client.exchange(id, request)
                    #expect(response.status == 403)
                    #expect(response.code == "cross_site")
                    id += 2
                }
            }
            #expect(gateway.upstream.received == 0)
            for origin in ["http://gateway.test", "http://gateway.test:80"] {
                let response = try await client.exchange(id, .post("/private/a", cookie, ("origin", origin)))
                #expect(response.status == 200)
                id += 2
            }
        }
    }

    @Test("A preflight of a listed origin gets a local response, and the upstream receives nothing")
    func preflight() async throws {
        try await Self.run(CrossSiteConfiguration(corsOrigins: ["https://app.gateway.test"])) { gateway, client, _ in
            let response = try await client.exchange(
                1,
                .request(
                    "OPTIONS", "/private/a", ("origin", "https://app.gateway.test"),
                    ("access-control-request-method", "POST"), ("access-control-request-headers", "content-type")))
            #expect(response.status == 204)
            #expect(response["access-control-allow-origin"] == "https://app.gateway.test")
            #expect(response["access-control-allow-credentials"] == "true")
            #expect(response["access-control-allow-methods"] == "GET, HEAD, POST")
            #expect(response["access-control-allow-headers"] == "content-type")
            #expect(response["access-control-max-age"] == "600")
            #expect(response.head?["vary"] == Self.vary)
            #expect(gateway.upstream.received == 0)
        }
    }

    @Test("A listed origin may read forwarded and local responses and problems; the upstream's CORS fields are dropped")
    func responses() async throws {
        let reply =
            "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: false\r\n"
            + "Vary: Accept\r\nContent-Length: 2\r\n\r\nok"
        try await Self.run(CrossSiteConfiguration(corsOrigins: ["https://app.gateway.test"]), reply: reply) {
            _, client, cookie in
            var id: UInt32 = 1
            for (path, status) in [("/private/a", 200), ("/public/a", 200), ("/auth", 200), ("/nowhere", 404)] {
                let response = try await client.exchange(
                    id, .get(path, cookie, ("origin", "https://app.gateway.test")))
                #expect(response.status == status)
                #expect(response["access-control-allow-origin"] == "https://app.gateway.test")
                #expect(response["access-control-allow-credentials"] == "true")
                #expect(response.head?["vary"].last == "Origin")
                let stranger = try await client.exchange(id + 2, .get(path, cookie, ("origin", "https://evil.test")))
                #expect(stranger.status == status)
                #expect(stranger.head?["access-control-allow-origin"] == [])
                #expect(stranger.head?["vary"].last == "Origin")
                id += 4
            }
        }
    }
}
