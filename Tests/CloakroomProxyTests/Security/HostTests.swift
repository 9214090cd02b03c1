import TestSupport
import Testing

@testable import CloakroomCore

/// Which routes and listeners serve the hosts of requests.
@Suite("Hosts", .serialized)
struct HostTests {
    /// All routes have hosts: /public/* of the upstream is open at `gateway.test`, and protected at `admin.test`.
    private static let setup = GatewaySetup.serving.configuration { configuration in
        for index in configuration.routes.indices {
            configuration.routes[index].hosts = ["gateway.test", "*.gateway.test"]
        }
        guard let pattern = try? PathPattern("/public/*") else { return }
        var route = Route(name: "admin", methods: ["GET", "POST"], pattern: pattern, requiresAuthorization: true)
        route.hosts = ["admin.test"]
        configuration.routes.append(route)
        configuration.accounts = AccountsConfiguration(prefix: "/auth")
    }

    private static func get(_ host: String, _ path: String = "/public/a", _ fields: String...) -> String {
        (["GET \(path) HTTP/1.1", "Host: \(host)"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
    }

    private static let evil = [
        "evil.test", "admin.test.evil", "a.admin.test", "test", "127.0.0.1", "[::1]", "a.b.gateway.test",
    ]

    private static let scenarios = [
        Scenario(
            "Rule 96: every spelling of a host leads to its own routes", on: setup,
            .all(["gateway.test", "GATEWAY.test.", "gateway.test:1", "x.gateway.test:"].map { get($0) }, 200),
            .all(
                ["admin.test", "ADMIN.test.", "admin.test:1", "admin.test.:443"].map { get($0) }, 401, "unauthorized"),
            .all(["/private/a", "/Public/a", "/x"].map { get("admin.test", $0) }, 404, "not_found"),
            .ok(), alsoHTTP2: true),
        Scenario(
            "Rule 96: a host that is not served gets 421 for routes, endpoints and *", on: setup,
            .all(evil.map { get($0) }, 421, "misdirected", has: ["Cache-Control: no-store", "Allow"]),
            .all(["/auth", "/nothing", "/private/a"].map { get("evil.test", $0, Ask.cookie) }, 421, "misdirected"),
            .ask("OPTIONS * HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421, "misdirected"),
            .ask("POST /auth HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 2\r\n\r\n{}", 421, "misdirected"),
            .run { try await $0.metric(#"cloakroom_misdirected_total{reason="other_listener"} 0"#) },
            .ok(), sent: [.init()], alsoHTTP2: true),
        Scenario(
            "Rule 96: an absolute target decides, and forwarding fields do not",
            on: setup.configuration {
                $0.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap(\.self)
            },
            .each(
                [
                    get("gateway.test", "http://evil.test/public/a"),
                    get("evil.test", "/public/a", "X-Forwarded-Host: gateway.test"),
                    get("evil.test", "/public/a", "Forwarded: host=gateway.test"),
                ], 421, "misdirected"),
            .each(
                [
                    get("gateway.test", "http://admin.test/public/a"),
                    get("admin.test", "/public/a", "X-Forwarded-Host: gateway.test"),
                    get("admin.test", "/public/a", "Forwarded: host=gateway.test"),
                ], 401),
            .ok(get("evil.test", "http://gateway.test/public/a")), sent: [.init()]),
        Scenario(
            "Rule 96: a request without a host, or with several, reaches no route", on: setup,
            .each(["GET /public/a HTTP/1.0\r\n\r\n"], 421, "misdirected"),
            .each(
                [
                    get("gateway.test", "/public/a", "Host: admin.test"), "GET /public/a HTTP/1.1\r\n\r\n", get(""),
                    get(":80"),
                    get("gateway.test@evil.test"), get(String(repeating: "a", count: 256)),
                ], 400),
            sent: [], metrics: [#"cloakroom_misdirected_total{reason="no_host"} 1"#]),
        Scenario(
            "Routes without hosts serve HTTP/1.0 requests without a host and all other hosts",
            on: setup.configuration { $0.routes[0].hosts = [] },
            .each(["GET /public/a HTTP/1.0\r\n\r\n", get("other.test")], 200),
            .each([get("other.test", "/private/a", Ask.cookie)], 404)),
        Scenario(
            "Rule 98: a request of a page whose host resolves here gets 421 before it is compared with its origin",
            on: setup,
            .each(
                [get("evil.test", "/private/a", "Origin: http://evil.test", Ask.cookie)]
                    + ["Origin: http://evil.test", "Origin: http://gateway.test", "Sec-Fetch-Site: same-origin"].map {
                        "POST /token/a HTTP/1.1\r\nHost: evil.test\r\n\($0)\r\n\(Ask.cookie)\r\nContent-Length: 0\r\n\r\n"
                    }, 421, "misdirected"), sent: []),
        Scenario(
            "The hosts of routes and listeners can change while a connection is open", on: setup,
            .ok(), .replace { $0.routes[0].hosts = ["other.test"] }, .all([get("gateway.test")], 404),
            .ok(get("other.test")), .replace { $0.listeners[0].hosts = ["admin.test"] },
            .all([get("other.test"), get("gateway.test")], 421, "misdirected"), .all([get("admin.test")], 401),
            .replace { configuration in
                for index in configuration.routes.indices { configuration.routes[index].hosts = [] }
                configuration.routes.removeLast()
            }, .ok(get("evil.test")), alsoHTTP2: true),
        Scenario(
            "CORS preflights and rate limits are those of the host's routes",
            on: setup.configuration {
                $0.crossSite.corsOrigins = ["https://app.test"]
                var limit = RateLimit(name: "few")
                (limit.requests, limit.givenBurst) = (RequestRate(1, per: .hour), 1)
                $0.rateLimits = [limit]
                $0.routes[0].rate = ["few"]
            },
            .ask(
                "OPTIONS /private/a HTTP/1.1\r\nHost: evil.test\r\nOrigin: https://app.test\r\n"
                    + "Access-Control-Request-Method: GET\r\n\r\n", 421, has: ["Access-Control-Allow-Origin"]),
            .ask(
                "OPTIONS /private/a HTTP/1.1\r\nHost: admin.test\r\nOrigin: https://app.test\r\n"
                    + "Access-Control-Request-Method: GET\r\n\r\n", 404),
            .ok(), .ask(Ask.get(), 429), .all([get("admin.test"), get("admin.test")], 401), sent: [.init()]),
    ]

    @Test("Hosts", arguments: scenarios)
    func hosts(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("A listener with hosts keeps them from the others, and the access log has the decision")
    func listeners() async throws {
        let setup = GatewaySetup.serving.configuration { configuration in
            configuration.listeners.append(configuration.listeners[0])
            configuration.listeners[1].hosts = ["admin.test"]
        }
        let (lines, _) = try await setup.logged { gateway in
            let open = try await RawPeer.connect(port: gateway.ports[0], allowsHalfClosure: false)
            let listed = try await RawPeer.connect(port: gateway.ports[1], allowsHalfClosure: false)
            try await expect(open.exchange(Self.get("gateway.test")).status, equals: 200)
            try await expect(open.exchange(Self.get("admin.test")).status, equals: 421)
            try await expect(listed.exchange(Self.get("admin.test")).status, equals: 200)
            try await expect(listed.exchange(Self.get("gateway.test")).status, equals: 421)
        }
        expect(lines.compactMap { $0["decision"] }, equals: ["public", "misdirected", "public", "misdirected"])
    }
}
