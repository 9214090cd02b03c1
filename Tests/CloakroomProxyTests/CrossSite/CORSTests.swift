import CloakroomCore
import TestSupport
import Testing

@Suite("Which responses pages of other origins may read", .serialized)
struct CORSTests {
    private static let listed = "Origin: https://app.gateway.test"
    private static let evil = "Origin: https://evil.test"
    private static let asks = "Access-Control-Request-Method: POST"
    private static let noFields = [
        "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Allow-Methods",
        "Access-Control-Allow-Headers", "Access-Control-Max-Age",
    ]
    private static let readable = [
        "Access-Control-Allow-Origin: https://app.gateway.test", "Access-Control-Allow-Credentials: true",
    ]
    private static let varying = readable + ["…Vary: Origin"]
    private static let preflightVary = "Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers"

    private static func cors(reply: String = Reply.ok, sessions: FakeSessions = FakeSessions()) -> GatewaySetup {
        .replying(reply).with(\.sessions, sessions).configuration {
            $0.crossSite.corsOrigins = ["https://app.gateway.test"]
        }
    }

    private static func options(_ path: String, _ fields: String...) -> String { Ask.ask("OPTIONS", path, fields) }

    private static func preflight(_ path: String, _ methods: String) -> Scenario.Step {
        .ask(
            options(path, listed, asks, "Access-Control-Request-Headers: content-type,x-csrf,x-api-token,bad name,*"),
            204,
            has: readable + [
                "Access-Control-Allow-Methods: \(methods)", "Access-Control-Allow-Headers: content-type, x-csrf",
                "Access-Control-Max-Age: 600", preflightVary, "Content-Length", "Connection",
            ])
    }

    private static let strangers = [
        "Origin: https://evil.test", "Origin: null", "Origin: http://app.gateway.test", "Origin: *",
        "Origin: https://app.gateway.test\r\nOrigin: https://app.gateway.test",
    ].map { options("/public/a", $0, asks) }

    private static let preflights = [
        Scenario(
            "A preflight of a listed origin gets a local response on routes and account endpoints; nothing goes upstream",
            on: cors(), preflight("/private/a", "GET, HEAD, POST"),
            preflight("/public/a", "GET, HEAD, POST, PUT, DELETE, OPTIONS"),
            preflight("/auth", "GET, HEAD, POST, DELETE"), preflight("/auth/sessions", "GET, HEAD, DELETE"),
            .ask(Ask.get("/nowhere"), 404), sent: [], alsoHTTP2: true),
        Scenario(
            "A preflight of any other origin gets a local response without CORS fields, and the upstream receives nothing",
            on: cors(), .each(strangers, 204, has: noFields + [preflightVary]), sent: []),
        Scenario(
            "Preflights are counted for the requested route, and denied ones are counted separately", on: cors(),
            .all([options("/private/a", listed, asks), options("/private/a", evil, asks)]),
            metrics: [#"cloakroom_auth_decisions_total{decision="csrf_rejected",route="private"} 1"#]),
        Scenario(
            "A preflight needs no session and causes no store access", on: cors(sessions: FakeSessions(load: .fail)),
            .ask(options("/private/a", listed, asks, FakeSessions.strangeCookie), 204, has: readable)),
        Scenario(
            "A preflight for an unknown path is denied too, but the page may read the reason", on: cors(),
            .ask(options("/nowhere", listed, asks), 404, has: [readable[0], "Access-Control-Allow-Methods"])),
        Scenario(
            "An OPTIONS request that is no preflight is handled as without CORS", on: cors(),
            .ok(options("/public/a", listed)), .ok(options("/public/a", asks)),
            .ask(options("/private/a", Ask.cookie, listed), 405)),
        Scenario(
            "With CORS off an OPTIONS request is routed or is 405, and the response has no CORS fields",
            on: .replying(
                "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\n"
                    + "Content-Length: 2\r\n\r\nok"),
            // The upstream's own field is kept, but credentials are those of the gateway.
            .ok(
                options("/public/a", listed, asks),
                has: ["Access-Control-Allow-Origin: *", "Access-Control-Allow-Credentials", "Vary"]),
            .ask(options("/private/a", listed, asks), 405, has: noFields + ["Vary"])),
    ]

    private static func everywhere(_ field: String) -> [String] {
        ["/private/a", "/public/a", "/auth", "/nowhere"].map { Ask.get($0, Ask.cookie, field) }
    }

    private static let upstreamsWord =
        "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\naccess-control-allow-credentials: true\r\n"
        + "Access-Control-Allow-Methods: *\r\nVary: Accept-Encoding\r\nContent-Length: 2\r\n\r\nok"

    private static let responses = [
        Scenario(
            "A listed origin may read every response: forwarded ones, local ones and problems of all kinds", on: cors(),
            .all(
                [
                    Ask.get("/private/a", Ask.cookie, listed), Ask.post("/private/a", Ask.cookie, listed),
                    Ask.get("/public/a", listed), Ask.get("/auth", listed), Ask.post("/auth", listed),
                ], 200, has: varying),
            .ask(Ask.get("/private/a", listed), 401, has: varying),
            .ask(Ask.get("/nowhere", listed), 404, has: varying),
            .ask(options("/private/a", listed), 405, has: varying), alsoHTTP2: true),
        Scenario(
            "A response to any other origin has no CORS fields, only Vary: Origin", on: cors(),
            .all(everywhere(evil) + everywhere("X: y"), has: noFields + ["…Vary: Origin"]),
            .ask(Ask.post("/private/a", Ask.cookie, evil), 403, has: noFields), alsoHTTP2: true),
        Scenario(
            "The upstream's own CORS fields are dropped, so none appears twice; credentials are never combined with *",
            on: cors(reply: upstreamsWord),
            .ask(
                Ask.get("/private/a", Ask.cookie, listed), 200,
                has: readable + [
                    "Access-Control-Allow-Methods", "Vary: Accept-Encoding", "Vary: Cookie", "Vary: Origin",
                ]), .ask(Ask.get("/public/a", evil), 200, has: noFields),
            alsoHTTP2: true),
        Scenario(
            "The origin of a request does not affect the next request on the connection", on: cors(),
            .ok(Ask.get("/private/a", Ask.cookie, listed), has: readable),
            .ok(Ask.get("/private/a", Ask.cookie), has: ["Access-Control-Allow-Origin"]),
            .ask("GET / HTTP/1.1\r\nBad Name: x\r\n\r\n", 400, has: ["Access-Control-Allow-Origin"])),
        Scenario(
            "A 503 for a store outage is readable too, after the session was requested from the store",
            on: cors(sessions: FakeSessions(load: .fail)),
            .ask(Ask.get("/private/a", FakeSessions.strangeCookie, listed), 503, has: readable)),
    ]

    @Test("CORS", arguments: preflights + responses)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }
}
