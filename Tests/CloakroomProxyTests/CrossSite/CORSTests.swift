import CloakroomCore
import TestSupport
import Testing

@Suite("Which responses pages of other origins may read", .serialized)
struct CORSTests {
    private static let listed = "Origin: https://app.gateway.test"
    private static let evil = "Origin: https://evil.test"
    private static let asks = "Access-Control-Request-Method: POST"
    private static let allFields = [
        "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Allow-Methods",
        "Access-Control-Allow-Headers", "Access-Control-Max-Age",
    ]
    private static let preflightVary = ["Origin, Access-Control-Request-Method, Access-Control-Request-Headers"]

    private static func run(
        isEnabled: Bool = true, reply: String = Reply.ok, load: FakeSessions.Load? = nil,
        body: (RunningGateway, String) async throws -> Void
    ) async throws {
        let sessions = load.map { FakeSessions(load: $0) } ?? FakeSessions()
        let cookie = load == nil ? sessions.add() : FakeSessions.strangeCookie
        try await GatewaySetup([.request, .send(reply), .again]).with(\.sessions, sessions)
            .configuration { if isEnabled { $0.crossSite.corsOrigins = ["https://app.gateway.test"] } }
            .run { try await body($0, cookie) }
    }

    private static func options(_ path: String, _ fields: String...) -> String {
        (["OPTIONS \(path) HTTP/1.1", "Host: gateway.test"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
    }

    // MARK: - Preflights

    @Test(
        "A preflight of a listed origin gets a local response on routes and account endpoints; nothing goes upstream",
        arguments: [
            ("/private/a", "GET, HEAD, POST"), ("/public/a", "GET, HEAD, POST, PUT, DELETE, OPTIONS"),
            ("/auth", "GET, HEAD, POST, DELETE"), ("/auth/sessions", "GET, HEAD, DELETE"),
        ])
    func preflight(path: String, methods: String) async throws {
        try await Self.run { gateway, _ in
            let client = try await gateway.client()
            let response = try await client.exchange(
                Self.options(
                    path, Self.listed, Self.asks,
                    "Access-Control-Request-Headers: content-type,x-csrf,x-api-token,bad name,*"))
            #expect(response.status == 204)
            #expect(response["Access-Control-Allow-Origin"] == "https://app.gateway.test")
            #expect(response["Access-Control-Allow-Credentials"] == "true")
            #expect(response["Access-Control-Allow-Methods"] == methods)
            #expect(response["Access-Control-Allow-Headers"] == "content-type, x-csrf")
            #expect(response["Access-Control-Max-Age"] == "600")
            #expect(response.values("Vary") == Self.preflightVary)
            #expect(response.values("Content-Length").isEmpty)
            // The connection stays open.
            #expect(try await client.exchange(Ask.get("/nowhere")).status == 404)
            #expect(gateway.upstream.connections.isEmpty)
        }
    }

    @Test(
        "A preflight of any other origin gets a local response without CORS fields, and the upstream receives nothing",
        arguments: [
            "Origin: https://evil.test", "Origin: null", "Origin: http://app.gateway.test", "Origin: *",
            "Origin: https://app.gateway.test\r\nOrigin: https://app.gateway.test",
        ])
    func strangersPreflight(origin: String) async throws {
        try await Self.run { gateway, _ in
            let response = try await gateway.client().exchange(Self.options("/public/a", origin, Self.asks))
            #expect(response.status == 204)
            for name in Self.allFields { #expect(response.values(name).isEmpty) }
            #expect(response.values("Vary") == Self.preflightVary)
            #expect(gateway.upstream.connections.isEmpty)
        }
    }

    @Test("Preflights are counted for the requested route, and denied ones are counted separately")
    func counted() async throws {
        try await Self.run { gateway, _ in
            let client = try await gateway.client()
            _ = try await client.exchange(Self.options("/private/a", Self.listed, Self.asks))
            _ = try await client.exchange(Self.options("/private/a", Self.evil, Self.asks))
            try await gateway.metric("cloakroom_auth_decisions_total{decision=\"csrf_rejected\",route=\"private\"} 1")
        }
    }

    @Test("A preflight needs no session and causes no store access")
    func noSession() async throws {
        try await Self.run(load: .fail) { gateway, cookie in
            let response = try await gateway.client().exchange(
                Self.options("/private/a", Self.listed, Self.asks, cookie))
            #expect(response.status == 204)
            #expect(response["Access-Control-Allow-Origin"] == "https://app.gateway.test")
        }
    }

    @Test("A preflight for an unknown path is denied too, but the page may read the reason")
    func unknownPath() async throws {
        try await Self.run { gateway, _ in
            let response = try await gateway.client().exchange(Self.options("/nowhere", Self.listed, Self.asks))
            #expect(response.status == 404)
            #expect(response["Access-Control-Allow-Origin"] == "https://app.gateway.test")
            #expect(response.values("Access-Control-Allow-Methods").isEmpty)
        }
    }

    @Test("An OPTIONS request that is no preflight is handled as without CORS")
    func plainOptions() async throws {
        try await Self.run { gateway, cookie in
            let client = try await gateway.client()
            #expect(try await client.exchange(Self.options("/public/a", Self.listed)).text == "ok")
            #expect(try await client.exchange(Self.options("/public/a", Self.asks)).text == "ok")
            #expect(try await client.exchange(Self.options("/private/a", cookie, Self.listed)).status == 405)
        }
    }

    @Test("With CORS off an OPTIONS request is routed or is 405, and the response has no CORS fields")
    func off() async throws {
        let reply = "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 2\r\n\r\nok"
        try await Self.run(isEnabled: false, reply: reply) { gateway, cookie in
            let client = try await gateway.client()
            let passed = try await client.exchange(Self.options("/public/a", Self.listed, Self.asks))
            #expect(passed.text == "ok")
            // The upstream's own field is kept.
            #expect(passed["Access-Control-Allow-Origin"] == "*")
            #expect(passed.values("Vary").isEmpty)
            let rejected = try await client.exchange(Self.options("/private/a", Self.listed, Self.asks))
            #expect(rejected.status == 405)
            for name in Self.allFields + ["Vary"] { #expect(rejected.values(name).isEmpty) }
        }
    }

    // MARK: - Responses

    @Test("A listed origin may read every response: forwarded ones, local ones and problems of all kinds")
    func readable() async throws {
        try await Self.run { gateway, cookie in
            let client = try await gateway.client()
            for (request, status) in [
                (Ask.get("/private/a", cookie, Self.listed), 200), (Ask.get("/public/a", Self.listed), 200),
                (Ask.post("/private/a", cookie, Self.listed), 200), (Ask.get("/private/a", Self.listed), 401),
                (Ask.get("/nowhere", Self.listed), 404), (Self.options("/private/a", Self.listed), 405),
                (Ask.get("/auth", Self.listed), 200), (Ask.post("/auth", Self.listed), 200),
            ] {
                let response = try await client.exchange(request)
                #expect(response.status == status)
                #expect(response["Access-Control-Allow-Origin"] == "https://app.gateway.test")
                #expect(response["Access-Control-Allow-Credentials"] == "true")
                #expect(response.values("Vary").contains("Origin"))
            }
        }
    }

    @Test(
        "A response to any other origin has no CORS fields, only Vary: Origin",
        arguments: ["Origin: https://evil.test", nil])
    func strangers(origin: String?) async throws {
        try await Self.run { gateway, cookie in
            let client = try await gateway.client()
            for path in ["/private/a", "/public/a", "/auth", "/nowhere"] {
                let response = try await client.exchange(Ask.get(path, cookie, origin ?? "X: y"))
                for name in Self.allFields { #expect(response.values(name).isEmpty) }
                #expect(response.values("Vary").contains("Origin"))
            }
            let rejected = try await client.exchange(Ask.post("/private/a", cookie, Self.evil))
            #expect(rejected.status == 403)
            for name in Self.allFields { #expect(rejected.values(name).isEmpty) }
        }
    }

    @Test("The upstream's own CORS fields are dropped, so none appears twice; credentials are never combined with *")
    func upstreamsWord() async throws {
        let reply =
            "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\naccess-control-allow-credentials: true\r\n"
            + "Access-Control-Allow-Methods: *\r\nVary: Accept-Encoding\r\nContent-Length: 2\r\n\r\nok"
        try await Self.run(reply: reply) { gateway, cookie in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", cookie, Self.listed))
            #expect(response.values("Access-Control-Allow-Origin") == ["https://app.gateway.test"])
            #expect(response.values("Access-Control-Allow-Credentials") == ["true"])
            #expect(response.values("Access-Control-Allow-Methods").isEmpty)
            #expect(response.values("Vary") == ["Accept-Encoding", "Cookie", "Origin"])
            let stranger = try await client.exchange(Ask.get("/public/a", Self.evil))
            for name in Self.allFields { #expect(stranger.values(name).isEmpty) }
        }
    }

    @Test("The origin of a request does not affect the next request on the connection")
    func notRemembered() async throws {
        try await Self.run { gateway, cookie in
            let client = try await gateway.client()
            #expect(
                try await client.exchange(Ask.get("/private/a", cookie, Self.listed))["Access-Control-Allow-Origin"]
                    != nil)
            let next = try await client.exchange(Ask.get("/private/a", cookie))
            #expect(next.values("Access-Control-Allow-Origin").isEmpty)
            let last = try await client.exchange("GET / HTTP/1.1\r\nBad Name: x\r\n\r\n")
            #expect(last.status == 400)
            #expect(last.values("Access-Control-Allow-Origin").isEmpty)
        }
    }

    @Test("A 503 for a store outage is readable too, after the session was requested from the store")
    func storeDown() async throws {
        try await Self.run(load: .fail) { gateway, cookie in
            let response = try await gateway.client().exchange(Ask.get("/private/a", cookie, Self.listed))
            #expect(response.status == 503)
            #expect(response["Access-Control-Allow-Origin"] == "https://app.gateway.test")
        }
    }
}
