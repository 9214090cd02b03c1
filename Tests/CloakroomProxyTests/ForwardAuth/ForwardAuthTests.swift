import Foundation
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

/// A question of another proxy, in the fields of its kind.
enum Question {
    static let proxies = ForwardAuthConfiguration.Proxy.allCases
    /// The fields of a navigation.
    static let navigation = ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: none"]

    static func of(
        _ proxy: ForwardAuthConfiguration.Proxy, _ method: String, _ target: String,
        host: String = "gateway.test", scheme: String = "https", client: String = "192.0.2.7", _ fields: String...
    ) -> String {
        of(proxy, method, target, host: host, scheme: scheme, client: client, fields)
    }

    static func of(
        _ proxy: ForwardAuthConfiguration.Proxy, _ method: String, _ target: String,
        host: String = "gateway.test", scheme: String = "https", client: String = "192.0.2.7", _ fields: [String]
    ) -> String {
        let common = ["X-Forwarded-Proto: \(scheme)", "X-Forwarded-For: \(client)"]
        var lines: [String]
        switch proxy {
        case .nginx:
            lines = ["GET /_decide HTTP/1.1", "Host: 127.0.0.1", "X-Original-Method: \(method)"]
            lines += ["X-Original-URI: \(target)", "X-Forwarded-Host: \(host)"]
        case .traefik, .caddy:
            lines = ["GET / HTTP/1.1", "Host: 127.0.0.1", "X-Forwarded-Method: \(method)"]
            lines += ["X-Forwarded-Uri: \(target)", "X-Forwarded-Host: \(host)"]
        case .envoy: lines = ["\(method) \(target) HTTP/1.1", "Host: \(host)"]
        }
        return (lines + common + fields).joined(separator: "\r\n") + "\r\n\r\n"
    }
}

@Suite("Forward authorization", .serialized)
struct ForwardAuthTests {
    static func setup(
        _ proxy: ForwardAuthConfiguration.Proxy, sources: String = "127.0.0.0/8",
        change: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        GatewaySetup.serving.configuration {
            $0.addCompany()
            $0.listeners[0].forwardAuth = ForwardAuthConfiguration(
                proxy: proxy, sources: [CIDRBlock(sources)].compactMap(\.self), hosts: ["gateway.test"])
            $0.upstreams[0].claimHeaders = [ClaimHeader("X-Identity", claim: "sub")]
            $0.routes[0].requestFields = [FieldChange(.set, "X-Route", "{route}")]
            change(&$0)
        }
    }

    private static let bearer = "Authorization: Bearer \(Canary.accessToken)"
    private static let other = "Cookie: theme=dark; \(Ask.cookieValue); a=b"
    /// A response that permits a request has all of these.
    private static let empty = [
        "Authorization: ", "Cookie: ", "X-API-TOKEN: ", "X-Identity: ", "X-Client-Cert-Subject: ",
    ]

    @Test(
        "Rule 106: success has every field that a route can inject, with its value or empty, and only other cookies",
        arguments: Question.proxies)
    func success(_ proxy: ForwardAuthConfiguration.Proxy) async throws {
        let removed =
            proxy == .envoy ? ["…x-envoy-auth-headers-to-remove: …X-Identity…"] : ["x-envoy-auth-headers-to-remove"]
        try await Scenario(
            "\(proxy)", on: Self.setup(proxy),
            .ask(
                Question.of(proxy, "GET", "/private/a", Self.other), 200, text: "",
                has: [
                    Self.bearer, "Cookie: theme=dark; a=b", "X-API-TOKEN: \(Canary.apiToken)", "X-Identity: ",
                    "X-Route: ", "Cache-Control: no-store", "Set-Cookie",
                ] + removed),
            .ask(
                Question.of(proxy, "GET", "/public/a", Ask.cookie, "Authorization: Bearer of-the-client"), 200,
                has: Self.empty + ["X-Route: public"], lacks: ["of-the-client", Ask.ticket.cookieValue]),
            .ask(Question.of(proxy, "GET", "/token/a"), 200, has: ["X-API-TOKEN: \(Canary.apiToken)", "Cookie: "]),
            sent: [], metrics: [#"cloakroom_auth_decisions_total{decision="forwarded",route="private"} 1"#]
        ).run()
    }

    @Test(
        "Rule 107: a denial is 401 or 403, and of a navigation a redirect that the proxy passes on",
        arguments: Question.proxies)
    func denials(_ proxy: ForwardAuthConfiguration.Proxy) async throws {
        let login = Self.setup(proxy) {
            $0.changePrivate { $0.onMissingSession = .login }
            $0.accounts.prefix = "/auth"
        }
        let location = "Location: https://gateway.test/auth/page?returnTo=…"
        try await Scenario(
            "\(proxy)", on: login,
            .ask(
                Question.of(proxy, "GET", "/private/a"), 401, "unauthorized", reason: "no_session",
                has: ["Location", "Authorization"]),
            .ask(
                Question.of(proxy, "GET", "/private/a?b=c", Question.navigation), proxy == .nginx ? 401 : 303,
                has: [location, "Cache-Control: no-store"]),
            .ask(
                Question.of(proxy, "GET", "/private/a", scheme: "http", Question.navigation),
                has: ["Location: http://gateway.test/…"]),
            .ask(Question.of(proxy, "GET", "/nothing"), 403, "not_found"),
            .ask(Question.of(proxy, "PATCH", "/private/a"), 403, "method_not_allowed", has: ["Allow"]),
            .ask(Question.of(proxy, "GET", "/auth", Ask.cookie), 403, "not_found"),
            .ask(Question.of(proxy, "DELETE", "/auth", Ask.cookie, "Sec-Fetch-Site: same-origin"), 403, "not_found"),
            .ask(Question.of(proxy, "GET", "/auth/login"), 403, "not_found"),
            .ask(Question.of(proxy, "TRACE", "/public/a"), 403),
            .ask(Question.of(proxy, "HEAD", "/public/a"), 200),
            sent: []
        ).run()
    }

    @Test(
        "Rule 107: no local response of success permits a request: preflights, OPTIONS *, redirects",
        arguments: Question.proxies)
    func localResponses(_ proxy: ForwardAuthConfiguration.Proxy) async throws {
        let setup = Self.setup(proxy) {
            $0.crossSite.corsOrigins = ["https://app.test"]
            guard let target = try? PathPattern("/public/*"),
                let rewrite = try? PathRewrite(from: $0.routes[1].pattern, to: target)
            else { return }
            $0.routes[1].action = .redirect(RedirectTemplate(rewrite))
        }
        let preflight = ["Origin: https://app.test", "Access-Control-Request-Method: GET"]
        try await Scenario(
            "\(proxy)", on: setup, .ask(Question.of(proxy, "OPTIONS", "/private/a", preflight), 403),
            .ask(Question.of(proxy, "OPTIONS", "*"), 403),
            .ask(Question.of(proxy, "OPTIONS", "/public/a", "Max-Forwards: 0"), 403),
            .ask(Question.of(proxy, "GET", "/token/a"), 403, has: ["Location"]), sent: []
        ).run()
    }

    @Test("Rule 108: a peer outside sources is closed before anything is read", arguments: Question.proxies)
    func sources(_ proxy: ForwardAuthConfiguration.Proxy) async throws {
        try await Self.setup(proxy, sources: "192.0.2.0/24").run { gateway in
            let client = try await gateway.client(sending: Question.of(proxy, "GET", "/public/a"))
            try await client.closed()
            expect(client.received, equals: 0)
            try await gateway.metric(#"cloakroom_rejections_total{reason="forward_auth_source"} 1"#)
        }
    }

    @Test(
        "Rule 109: otherProxysFieldChangesNothing, and each field of the proxy is there once",
        arguments: Question.proxies)
    func fields(_ proxy: ForwardAuthConfiguration.Proxy) async throws {
        let foreign: [String]
        var doubled = ["X-Forwarded-Proto: https", "X-Forwarded-For: 192.0.2.8"]
        switch proxy {
        case .nginx:
            foreign = ["X-Forwarded-Uri: /public/a", "X-Forwarded-Method: GET", "Forwarded: host=evil.test"]
            doubled += ["X-Original-URI: /public/a", "x-original-method: GET", "X-Forwarded-Host: gateway.test"]
        case .traefik, .caddy:
            foreign = ["X-Original-URI: /public/a", "X-Original-Method: GET", "X-Real-IP: 192.0.2.9"]
            doubled += ["X-Forwarded-URI: /public/a", "x-forwarded-method: GET", "X-Forwarded-Host: gateway.test"]
        case .envoy:
            foreign = [
                "X-Original-URI: /public/a", "X-Original-Method: GET", "X-Forwarded-Uri: /public/a",
                "X-Forwarded-Method: GET", "X-Forwarded-Host: evil.test",
            ]
        }
        let whole = Question.of(proxy, "GET", "/public/a")
        let lines = whole.components(separatedBy: "\r\n")
        let needed =
            ["x-forwarded-proto", "x-forwarded-for"] + doubled.map { $0.lowercased().components(separatedBy: ":")[0] }
        let missing = Set(needed).sorted().map { name in
            lines.filter { !$0.lowercased().hasPrefix("\(name):") }.joined(separator: "\r\n")
        }
        let invalid = [
            Question.of(proxy, "GET", "/public/a", scheme: "ftp"),
            Question.of(proxy, "GET", "/public/a", client: "unknown"),
            Question.of(proxy, "GET", "/public/a", client: ""),
            Question.of(proxy, "GET", "/public/a", host: "evil.test"),
            Question.of(proxy, "GET", "/public/a", host: "gateway.test@evil.test"),
        ]
        try await Scenario(
            "\(proxy)", on: Self.setup(proxy),
            .ask(Question.of(proxy, "GET", "/private/a", foreign), 401, "unauthorized"),
            .ask(Question.of(proxy, "GET", "/public/a", foreign), 200),
            .each(doubled.map { Question.of(proxy, "GET", "/public/a", $0) }, 403),
            .each(missing, 403), .each(invalid, 403), sent: []
        ).run()
    }

    @Test(
        "Rule 110: a target that is not in its normal form is denied, because the proxy forwards it as it is",
        arguments: Question.proxies)
    func targets(_ proxy: ForwardAuthConfiguration.Proxy) async throws {
        let targets = [
            "/public/%2e%2e/admin", "//public/a", "/public/a;x", "/public/%61", "/public/a%2fb", "/public/./a",
            "/public/a|b",
            "/public/a%23", "http://gateway.test/public/a",
        ]
        try await Scenario(
            "\(proxy)", on: Self.setup(proxy), .each(targets.map { Question.of(proxy, "GET", $0) }, 403),
            .ask(Question.of(proxy, "GET", "/Public/a"), 403),
            .ask(Question.of(proxy, "GET", "/public/a?x=%2e%2e"), 200),
            sent: []
        ).run()
    }

    @Test(
        "Rule 111: spoofedAliasIsRejected: a client's copy of a field that the gateway sets is denied in any spelling",
        arguments: Question.proxies)
    func aliases(_ proxy: ForwardAuthConfiguration.Proxy) async throws {
        let spoofed = [
            "X-Identity: root", "X_Identity: root", "x.identity: root", "X-IDENTITY:", "X-Api-Token: x",
            "X_API_TOKEN: x",
            "X-Route: x", "X-Client-Cert-Subject: CN=root", "X_Client_Cert_Subject: CN=root",
            // Another method, path or host than those that are decided about.
            "X-HTTP-Method-Override: DELETE", "X-Original-URL: /private/a", "X_Rewrite_URL: /private/a",
            "X-Host: evil.test", "x.original.host: evil.test", "X-HTTP-Host-Override: evil.test",
            // Another address or user, in a spelling that no proxy removes.
            "X.Forwarded.Host: evil.test", "X-Forwarded.For: 192.0.2.9", "x_real_ip: 192.0.2.9", "X.Remote.User: root",
            "Remote!User: root", "X-Original_URI: /private/a",
        ]
        try await Scenario(
            "\(proxy)", on: Self.setup(proxy),
            .each(spoofed.map { Question.of(proxy, "GET", "/public/a", $0) }, 403),
            .each(spoofed.map { Question.of(proxy, "GET", "/private/a", Ask.cookie, $0) }, 403),
            .ask(Question.of(proxy, "GET", "/public/a", "X-Remote-User: root", "X.App.Version: 1"), 200), sent: []
        ).run()
    }

    @Test(
        "Rule 112: an unsafe request with the cookie needs Origin or Sec-Fetch-Site, and a WebSocket a route for it",
        arguments: Question.proxies)
    func crossSite(_ proxy: ForwardAuthConfiguration.Proxy) async throws {
        let socket = ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13", Ask.cookie]
        let origin = "Origin: https://gateway.test"
        let setup = Self.setup(proxy)
        try await Scenario(
            "\(proxy)", on: setup, .ask(Question.of(proxy, "POST", "/private/a", Ask.cookie), 403, "cross_site"),
            .ask(Question.of(proxy, "POST", "/private/a", Ask.cookie, "Origin: https://evil.test"), 403, "cross_site"),
            .ask(Question.of(proxy, "POST", "/private/a", Ask.cookie, "Sec-Fetch-Site: cross-site"), 403, "cross_site"),
            .ask(Question.of(proxy, "POST", "/private/a", scheme: "http", Ask.cookie, origin), 403, "cross_site"),
            .ask(Question.of(proxy, "POST", "/private/a", Ask.cookie, origin), 200),
            .ask(Question.of(proxy, "POST", "/private/a", Ask.cookie, "Sec-Fetch-Site: same-origin"), 200),
            .ask(Question.of(proxy, "POST", "/public/a"), 200),
            // The route allows no WebSocket, and the proxy would open one.
            .ask(Question.of(proxy, "GET", "/private/a", socket + [origin]), 403),
            .ask(
                Question.of(
                    proxy, "GET", "/private/a", Ask.cookie, origin, "Connection: Upgrade", "Upgrade: websocket"), 403),
            sent: []
        ).run()
    }

    @Test(
        "Rule 112: a proxy that omits Origin and Sec-Fetch-Site is explained in the log, once an hour, and others are not",
        arguments: Question.proxies)
    func missingOrigin(_ proxy: ForwardAuthConfiguration.Proxy) async throws {
        let log = RecordedLog()
        try await Self.setup(proxy).with(\.logger, log.logger).steppedTime().run { gateway in
            for expected in 1...2 {
                let client = try await gateway.client()
                func ask(_ fields: String...) async throws -> Int {
                    try await client.exchange(Question.of(proxy, "POST", "/private/a", fields)).status
                }
                let foreign = try await ask(Ask.cookie, "Origin: https://evil.test")
                let crossSite = try await ask(Ask.cookie, "Sec-Fetch-Site: cross-site")
                let own = try await ask(Ask.cookie, "Sec-Fetch-Site: same-origin")
                expect(foreign == 403 && crossSite == 403 && own == 200)
                expect(log.lines("event", "forward_auth_origin").count, equals: expected - 1)
                for _ in 0..<50 {
                    let status = try await ask(Ask.cookie)
                    expect(status, equals: 403)
                }
                expect(log.lines("event", "forward_auth_origin").count, equals: expected)
                // Longer than idle connections last.
                try await gateway.advance(.seconds(3_600))
            }
        }
        let line = try require(log.lines("event", "forward_auth_origin").first)
        expect(line["proxy"], equals: proxy.rawValue)
        expect(line["hint"]?.contains("allowed_headers"), equals: proxy == .envoy)
    }

    @Test(
        "Expired tokens are refreshed before the request is permitted, and an outage denies it",
        arguments: Question.proxies)
    func refresh(_ proxy: ForwardAuthConfiguration.Proxy) async throws {
        let expired = Company.session(token: "old", accessEnds: Company.longAgo)
        let refreshed = Company.session(token: "refreshed").1
        let refresher = FakeRefresher { _, _ in .active(refreshed) }
        let setup = Self.setup(proxy).with(\.refresher, refresher)
        setup.sessions.add(expired)
        let cookie = FakeSessions.cookie(expired.0)
        try await Scenario(
            "\(proxy)", on: setup,
            .ask(
                Question.of(proxy, "GET", "/private/a", cookie), 200,
                has: ["Authorization: Bearer refreshed", "X-Identity: user-1"])
        ).run()
        expect(refresher.calls.count, equals: 1)
        let down = Self.setup(proxy).with(\.sessions, FakeSessions(load: .fail))
        try await Scenario(
            "\(proxy)", on: down,
            .ask(Question.of(proxy, "GET", "/private/a", cookie), 403, "store_unavailable", has: ["Authorization"]),
            .ask(Question.of(proxy, "GET", "/public/a"), 200)
        ).run()
    }

    @Test("A question over HTTP/2 is decided alike, and the address of the client is that of the proxy's field")
    func otherVersions() async throws {
        let limited = Self.setup(.envoy) {
            var limit = RateLimit(name: "few")
            (limit.requests, limit.givenBurst) = (RequestRate(1, per: .hour), 1)
            $0.rateLimits = [limit]
            $0.routes[0].rate = ["few"]
        }
        let get = { Question.of(.envoy, "GET", "/public/a", client: $0) }
        try await Scenario(
            "Envoy", on: limited, .ask(get("192.0.2.1"), 200), .ask(get("192.0.2.1"), 403, "rate_limited"),
            .ask(get("192.0.2.2"), 200), .ask(get("192.0.2.2, 192.0.2.1"), 403),
            .ask(Question.of(.envoy, "GET", "/private/a"), 401), .ask(Question.of(.envoy, "GET", "/nothing"), 403),
            sent: [], alsoHTTP2: true
        ).run()
    }

    @Test(
        "An external upstream gets requests only through the proxy that asks: others get 404",
        arguments: Question.proxies)
    func external(_ proxy: ForwardAuthConfiguration.Proxy) async throws {
        let change = { @Sendable (configuration: inout GatewayConfiguration) in
            configuration.upstreams.append(UpstreamConfiguration(name: "orders", targets: []))
            configuration.routes[2].action = .forward(upstream: 1, nil)
            configuration.routes[2].inject = []
        }
        try await Scenario(
            "\(proxy)", on: Self.setup(proxy, change: change),
            .ask(Question.of(proxy, "GET", "/private/a"), 401, "unauthorized"),
            .ask(
                Question.of(proxy, "GET", "/private/a", Ask.cookie), 200,
                has: ["Authorization: ", "Cookie: ", "X-API-TOKEN: "]), sent: []
        ).run()
        try await Scenario(
            "ordinary", on: GatewaySetup.serving.configuration(change),
            .ask(Ask.get("/private/a"), 401, "unauthorized"), .ask(Ask.get("/private/a", Ask.cookie), 404, "not_found"),
            sent: []
        ).run()
    }

    @Test("The access log has the original request, and the proxy that was decided for")
    func log() async throws {
        let (lines, text) = try await Self.setup(.nginx).logged { gateway in
            let client = try await gateway.client()
            _ = try await client.exchange(Question.of(.nginx, "POST", "/public/a?secret=1"))
        }
        let line = try require(lines.last)
        expect(line["method"], equals: "POST")
        expect(line["path"], equals: "/public/a")
        expect(text.contains(#""decided_for":"nginx""#))
        expect(text.contains(#""status":200"#))
    }
}
