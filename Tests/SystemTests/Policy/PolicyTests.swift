import MockAPI
import TestSupport
import Testing

/// Which requests are forwarded and with what, tested through the running program.
@Suite("Policy", .serialized, .timeLimit(.minutes(3)))
struct PolicyTests {
    @Test("Rule 23: if the gateway responds with 401, the API has not received the request")
    func nothingUpstreamOn401() async throws {
        try await GatewayProcess.running { gateway, mock in
            let client = gateway.client
            let responses = [
                try await client.get("/videos/1"), try await client.get("/user?p=/episodes"),
                try await client.get("/videos/1", [("Authorization", "Bearer forged")]),
                try await client.send("POST", "/__mock/echo", body: "secrets of mine"),
                try await client.other(cookie: String(repeating: "A", count: 43)).get("/videos/1"),
                try await client.get("/auth"),
            ]
            #expect(responses.map(\.status) == Array(repeating: 401, count: responses.count))
            #expect(mock.observations.snapshot().total == 0)
            let metrics = try await WebClient(gateway.admin).get("/metrics").body
            let connections = metrics.split(separator: "\n").filter { $0.hasPrefix("cloakroom_upstream_connections{") }
            #expect(!connections.isEmpty)
            #expect(connections.allSatisfy { $0.hasSuffix(" 0") })
        }
    }

    @Test("Routes and methods that are not configured are rejected, also with a session")
    func unlisted() async throws {
        try await GatewayProcess.running { gateway, mock in
            let client = gateway.client
            _ = try await client.signIn()
            let requests = mock.observations.snapshot().total
            for path in ["/", "/nothing", "/videos", "/videos/1/2", "/Episodes", "/episodes/", "/metrics", "/auth/x"] {
                let response = try await client.get(path)
                #expect(response.status == 404, "\(path)")
                #expect(response.problem?.code == "not_found", "\(path)")
            }
            let methods: [(String, String, Set<String>)] = [
                ("POST", "/episodes", ["GET", "HEAD"]), ("DELETE", "/videos/1", ["GET", "HEAD"]),
                ("GET", "/__mock/echo", ["POST"]), ("PUT", "/auth", ["POST", "GET", "DELETE"]),
                ("BREW", "/episodes", ["GET", "HEAD"]),
            ]
            for (method, path, allowed) in methods {
                let response = try await client.send(method, path)
                #expect(response.status == 405, "\(method) \(path)")
                #expect(response.problem?.code == "method_not_allowed")
                let allow = response.values(of: "Allow").joined().split(separator: ",")
                    .map { String($0.drop { $0 == " " }) }
                #expect(Set(allow).isSuperset(of: allowed), "\(method) \(path): \(allow)")
                #expect(!allow.contains(method))
            }
            #expect(mock.observations.snapshot().total == requests)
        }
    }

    @Test("Rule 33: with another prefix and a public /*, the API's token endpoints are unreachable in every spelling")
    func tokenCalls() async throws {
        let routes = ["name=all", "methods=GET,POST", "path=/*", "requiresAuthorization=false", "inject=apiToken"]
        try await GatewayProcess.running(set: ["accounts.prefix=/session"] + routes.map { "routes.4.\($0)" }) {
            gateway, mock in
            let client = gateway.client
            for path in ["/auth", "/Auth", "/auth%20", "/auth/", "/auth/refresh", "/auth/revoke", "/AUTH/refresh"] {
                let response = try await client.send("POST", path)
                #expect(response.status == 404, "\(path)")
                #expect(response.problem?.code == "not_found", "\(path)")
            }
            #expect(mock.observations.snapshot().total == 0)
            _ = try await client.get("/elsewhere")
            #expect(mock.observations.snapshot().total == 1)
        }
    }

    @Test("Ambiguous paths are rejected, and the API receives none of them")
    func ambiguousPaths() async throws {
        try await GatewayProcess.running { gateway, mock in
            let rejected = [
                "/episodes/../videos/1", "/videos%2f1", "/videos/%2e%2e/episodes", "/videos%5c1", "/videos/1%00",
                "/episodes;/../videos/1", "/episodes%23", "/videos/%zz", "/\u{e9}pisodes", "//episodes",
            ]
            for path in rejected {
                let request = "GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                let response = try TestResponse(
                    printed: try await RawPeer.exchange(Array(request.utf8), port: gateway.clear.port))
                #expect(response.status == 400, "\(path)")
                #expect(response.problem?.code == "bad_request", "\(path)")
            }
            #expect(mock.observations.snapshot().total == 0)
        }
    }

    @Test("Local responses are never cacheable")
    func noStore() async throws {
        try await GatewayProcess.running { gateway, _ in
            let client = gateway.client
            let responses = [
                try await client.signIn(password: "wrong"), try await client.signIn(email: "jo"),
                try await client.get("/auth"), try await client.get("/videos/1"), try await client.get("/nothing"),
                try await client.send("POST", "/episodes"), try await client.signIn(), try await client.get("/auth"),
                try await client.get("/videos/%00"), try await client.send("DELETE", "/auth"),
            ]
            #expect(responses.map(\.status) == [401, 422, 401, 401, 404, 405, 200, 200, 400, 204])
            for response in responses { #expect(response.values(of: "Cache-Control") == ["no-store"]) }
        }
    }

    @Test("Responses that depend on a session are private unless the API sets Cache-Control, and vary by Cookie")
    func privateResponses() async throws {
        try await GatewayProcess.running { gateway, _ in
            let client = gateway.client
            _ = try await client.signIn()
            let echo = try await client.send("POST", "/__mock/echo", body: "mine")
            #expect(echo.status == 200)
            #expect(echo.body == "mine")
            #expect(echo.values(of: "Cache-Control") == ["private"])
            #expect(echo.values(of: "Vary") == ["Cookie"])
            // Here the API sets `Cache-Control`.
            let video = try await client.get("/videos/1")
            #expect(video.values(of: "Cache-Control") == ["no-store"])
            #expect(video.values(of: "Vary") == ["Cookie"])
            // Here the response does not depend on a session.
            let episodes = try await client.get("/episodes")
            #expect(episodes.values(of: "Cache-Control") == [])
            #expect(episodes.values(of: "Vary") == [])
        }
    }

    @Test("Rules 89 and 91: fields that a route sets reach the API and the client, and those of clients do not")
    func changedFields() async throws {
        let set = [
            "routes.0.requestFields.set.X-Tenant=acme", "responseFields.preset=api", "responseFields.hsts.maxAge=30d",
            "listeners.0.behindTLSProxy=true", "session.cookie.secure=true",
        ]
        try await GatewayProcess.running(set: set) { gateway, mock in
            let client = gateway.client
            let response = try await client.get("/episodes", [("X_Tenant", "evil"), ("x-tenant", "evil")])
            #expect(response.status == 200)
            let sent = try #require(mock.observations.snapshot().recent.last)
            #expect(sent.values(of: "X-Tenant") == ["acme"])
            #expect(sent.values(of: "X_Tenant") == [])
            #expect(response.values(of: "Strict-Transport-Security") == ["max-age=2592000"])
            #expect(response.values(of: "Referrer-Policy") == ["no-referrer"])
            let rejected = try await client.get("/videos/1")
            #expect(rejected.status == 401)
            #expect(rejected.values(of: "X-Content-Type-Options") == ["nosniff"])
            let page = try await client.get("/auth")
            #expect(page.values(of: "Content-Security-Policy") == ["frame-ancestors 'self'"])
            #expect(page.values(of: "Cross-Origin-Opener-Policy") == [])
            #expect(mock.observations.snapshot().total == 1)
        }
    }

    @Test("The admin listener is read-only, and its pages are not served to clients")
    func adminListener() async throws {
        try await GatewayProcess.running { gateway, mock in
            let client = gateway.client
            let admin = WebClient(gateway.admin)
            // The first five are the status page and what it loads.
            for path in [
                "/", "/status.css", "/draw.js", "/status.js", "/status.json", "/metrics", "/live", "/ready",
            ] {
                let own = try await admin.get(path)
                #expect(own.status == 200, "\(path)")
                let clients = try await client.get(path)
                #expect(clients.status == 404, "\(path)")
                #expect(clients.problem?.code == "not_found", "\(path)")
                for method in ["POST", "PUT", "DELETE", "PATCH"] {
                    let response = try await admin.send(method, path)
                    #expect(response.status == 405, "\(method) \(path)")
                    #expect(response.values(of: "Allow") == ["GET, HEAD"], "\(method) \(path)")
                }
            }
            for path in ["/episodes", "/videos/1", "/auth", "/status"] {
                let response = try await admin.get(path)
                #expect(response.status == 404, "\(path)")
            }
            let signIn = try await admin.signIn()
            #expect(signIn.status == 404)
            #expect(gateway.admin.hasPrefix("http://127.0.0.1:"))
            #expect(mock.observations.snapshot().total == 0)
        }
    }
}
