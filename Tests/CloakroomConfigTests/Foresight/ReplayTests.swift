import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomConfig

@Suite("replay")
struct ReplayTests {
    /// A line of the access log.
    private static func line(
        _ method: String, _ path: String, _ decision: String, status: Int = 200, route: String = "(unmatched)",
        _ more: String = ""
    ) -> String {
        """
        {"time":"2026-11-21T11:37:14.178Z","level":"info","logger":"access","request_id":"e378800d64c712d1701a1f3e5178034b",\
        "peer":"127.0.0.1","method":"\(method)","route":"\(route)","path":"\(path)","status":\(status),\(more)\
        "decision":"\(decision)","scheme":"http","protocol":"1.1","host":"localhost:8080"}
        """
    }

    private static let session = "\"session\":\"0be95bab328bcd6b\","
    private static let noSession = "\"unauthorized_reason\":\"no_session\","

    /// What the configuration of ``ProofTests`` logs, of every kind.
    private static let log = [
        line("GET", "/", "public", route: "page", "\"upstream\":\"api\","),
        line("GET", "/%6eews", "public", route: "page", "\"upstream\":\"api\","),
        line("GET", "/billing/1", "forwarded", route: "invoices", "\"upstream\":\"billing\"," + session),
        line("POST", "/billing/1", "forwarded", status: 503, route: "invoices", session),
        line("GET", "/admin/1", "forwarded", route: "admin", "\"upstream\":\"api\"," + session),
        line("GET", "/admin/1", "unauthenticated", status: 401, route: "admin", noSession),
        line("GET", "/admin/1", "forbidden", status: 403, route: "admin"),
        line("POST", "/admin/1", "csrf_rejected", status: 403, route: "admin"),
        line("GET", "/Admin/1", "undecided", status: 404), line("PUT", "/news", "undecided", status: 405),
        line("GET", "/auth", "local", route: "(accounts)"), line("GET", "/a//b", "undecided", status: 400),
        line("OPTIONS", "/admin/1", "local", status: 204, route: "admin"),
        line("GET", "/", "misdirected", status: 421).replacing("localhost", with: "other.test"),
    ]

    private static func replay(_ lines: [String], _ yaml: String = ProofTests.good) throws -> CommandReport {
        try ConfigFixture(yaml).report { sources in
            let report = try? CommandReport.replay(sources) { reader in
                // In parts that do not end with lines.
                let bytes = Array(lines.joined(separator: "\n").utf8)
                for start in stride(from: 0, to: bytes.count, by: 100) {
                    reader.read(Array(bytes[start..<min(start + 100, bytes.count)]))
                }
            }
            return report ?? CommandReport.checkConfig(sources)
        }
    }

    @Test("The configuration that made a log decides nothing otherwise; what the log does not state is counted")
    func same() throws {
        let report = try Self.replay(Self.log)
        expect(
            report.text,
            equals: """
                route admin: the log does not state the claims of 1 requests that need some
                2 requests not compared: rejected before a decision, or cut
                12 requests: 0 decided otherwise

                """)
        expect(report.exitCode, equals: 0)
    }

    @Test(
        "Requests that another configuration decides otherwise are grouped by route, decision and reason",
        arguments: [
            (
                "requiresAuthorization: true, inject: [apiToken, bearer]", "requiresAuthorization: false",
                "invoices", [], 0
            ),
            (
                "path: /*, upstream: api, requiresAuthorization: false",
                "path: /*, upstream: api, requiresAuthorization: true",
                "page",
                [
                    "2", "unknown", "page", "public to api", "401, route page requires a session",
                    "GET localhost:8080/ (line 1)",
                ], 3
            ),
            (
                "path: /*, upstream: api", "path: /*, upstream: billing", "page",
                [
                    "2", "differs", "page", "public to api", "forwarded to billing by route page",
                    "GET localhost:8080/ (line 1)",
                ], 3
            ),
            (
                "\"/billing/{id}\"", "\"/invoices/{id}\"", "invoices",
                [
                    "1", "differs", "invoices", "forwarded", "405, no route with the method",
                    "POST localhost:8080/billing/1 (line 4)",
                ], 3
            ),
            (
                "name: invoices,", "name: invoices, forwardAs: \"/v2/{id}\",", "invoices",
                [
                    "1", "differs", "invoices", "forwarded to billing",
                    "forwarded to billing /v2/{id} by route invoices", "GET localhost:8080/billing/1 (line 3)",
                ], 3
            ),
            (
                "name: health, methods: [GET], path: /health", "name: health, methods: [PUT], path: /news",
                "(unmatched)",
                [
                    "1", "differs", "(unmatched)", "405", "forwarded to api by route health",
                    "PUT localhost:8080/news (line 10)",
                ], 3
            ),
        ] as [(String, String, String, [String], Int32)])
    func changed(old: String, new: String, route: String, row: [String], code: Int32) throws {
        let yaml = ProofTests.good.replacing(old, with: new)
        expect(yaml != ProofTests.good)
        let report = try Self.replay(Self.log, yaml)
        expect(report.exitCode, equals: code, "\(report.text)")
        let rows = report.text.split(separator: "\n").map { line in
            line.split(separator: "  ").map { $0.trimmingPrefix(while: { $0 == " " }) }.filter { !$0.isEmpty }
                .map(String.init)
        }
        expect(row.isEmpty || rows.contains(row), "\(report.text)")
        if code != 0 { expect(report.json.contains("\"route\" : \"\(route)\"")) }
    }

    @Test("Lines that are cut, foreign or too long are skipped with their numbers; events are no requests")
    func skipped() throws {
        let lines = [
            "{\"logger\":\"access\",\"meth", "127.0.0.1 - - GET / 200", "{\"a\":1}", "",
            "{\"level\":\"info\",\"logger\":\"cloakroom\",\"event\":\"start\"}", Self.log[0],
            "\"" + String(repeating: "x", count: 70_000) + "\"", Self.log[0].replacing("public", with: "unheard"),
            Self.log[0].replacing("\"/\"", with: "\"/\(String(repeating: "a", count: 1_023))\""), Self.log[0],
        ]
        try expect(
            Self.replay(lines).text,
            equals: """
                6 lines skipped, cut or of another log: 1, 2, 3, 4, 7, 8
                1 requests not compared: rejected before a decision, or cut
                2 requests: 0 decided otherwise

                """)
    }

    @Test("A log of which no request could be read is an error")
    func unread() throws {
        let foreign = try Self.replay(["127.0.0.1 - - GET / 200"])
        expect(foreign.exitCode, equals: 1)
        expect(
            foreign.text,
            equals: """
                1 lines skipped, cut or of another log: 1
                error: no request was read (give an access log that is written with logging.format: json)

                """)
        let damaged = try ConfigFixture(ProofTests.good).report { sources in
            let report = try? CommandReport.replay(sources) { $0.stop("it is damaged") }
            return report ?? CommandReport.checkConfig(sources)
        }
        expect(damaged.exitCode, equals: 1)
        expect(damaged.text.contains("error: no request was read"), "\(damaged.text)")
        let event = "{\"level\":\"info\",\"logger\":\"cloakroom\",\"event\":\"start\"}"
        try expect(Self.replay([event]).exitCode, equals: 0)
    }

    @Test("A log cannot disguise the report: characters that are not visible are escaped, long names cut")
    func hostile() throws {
        let long = String(repeating: "r", count: 60_000)
        let lines = [
            Self.line("G\u{2066}T", "/", "public", route: "a\u{202e}b"), Self.line("PUT", "/", "public", route: long),
        ]
        let text = try Self.replay(lines).text
        expect(text.contains("a\\u{202e}b") && text.contains("G\\u{2066}T localhost:8080/"), "\(text)")
        expect(!text.unicodeScalars.contains { ["\u{202e}", "\u{2066}"].contains($0) })
        expect(text.contains(String(repeating: "r", count: 253) + "…"))
        expect(!text.contains(String(repeating: "r", count: 254)))
    }

    /// What another configuration decides now about each line that it decides otherwise.
    private static func decisions(_ lines: [String], _ configuration: GatewayConfiguration) throws -> [String?] {
        try lines.map { line in
            var reader = LogReader(try Replay(configuration, name: "new"))
            reader.read(Array(line.utf8))
            return reader.finished().result.groups.first?.now
        }
    }

    private static func line(at listener: String) -> String {
        line("GET", "/", "public", route: "page", "\"upstream\":\"api\",\"listener\":\"\(listener)\",")
    }

    @Test("A request is decided for the listener that the log names, or else for those with its scheme")
    func listeners() throws {
        var new = try ConfigFixture(ProofTests.good).load().configuration
        new.listeners.append(ListenerConfiguration(address: HostAndPort(host: "127.0.0.1", port: 8_081)))
        new.listeners[1].hosts = ["localhost"]
        try expect(
            Self.decisions(
                [
                    Self.line(at: "127.0.0.1:8080"), Self.line(at: "127.0.0.1:8081"), Self.line(at: "127.0.0.1:9"),
                    Self.line("GET", "/", "public", route: "page", "\"upstream\":\"api\","),
                ], new), equals: ["421, the host is not served", nil, "not received, no listener has the address", nil])
    }

    @Test("The redirect of a route is not that of a listener")
    func redirects() throws {
        var new = try ConfigFixture(ProofTests.good).load().configuration
        new.listeners.append(ListenerConfiguration(address: HostAndPort(host: "127.0.0.1", port: 8_443)))
        new.listeners[0].redirectToHTTPS = 8_443
        new.listeners[1].tls = ListenerTLSConfiguration(certificateFile: "a", keyFile: "b")
        let moved = Self.line("GET", "/moved", "redirected", status: 308, route: "moved")
        try expect(
            Self.decisions(
                [
                    moved, moved.replacing("\"scheme\":\"http\"", with: "\"scheme\":\"https\""),
                    Self.line("GET", "/", "redirected", status: 308), Self.line("POST", "/", "undecided", status: 403),
                    Self.line("GET", "/", "public", route: "page", "\"upstream\":\"api\","),
                    Self.line("POST", "/billing/1", "forwarded", route: "invoices", Self.session),
                ], new),
            equals: [
                "redirected to https", "forwarded to api by route page", nil, nil, "redirected to https",
                "403, https is required",
            ])
        new = try ConfigFixture(ProofTests.good).load().configuration
        try expect(
            Self.decisions([Self.line("GET", "/", "redirected", status: 308)], new),
            equals: [
                "forwarded to api by route page"
            ])
    }

    @Test("Many roles are no obstacle: a request is decided for the sessions that its route distinguishes")
    func roles() throws {
        let rest = "methods: [GET], upstream: api, requiresAuthorization: true"
        let routes = (0..<16).map { "name: r\($0), path: /r\($0), \(rest), require: { claims: { groups: [g\($0)] } }" }
        let yaml = try ProofTests.extended(routes.joined(separator: "\n"))
        let lines = [Self.line("GET", "/r1", "forwarded", route: "r1", "\"upstream\":\"api\"," + Self.session)]
        let report = try Self.replay(lines, yaml)
        expect(report.text.hasSuffix("\n1 requests: 0 decided otherwise\n"), "\(report.text)")
        let proof = try ConfigFixture(yaml).report { CommandReport.prove($0) }
        expect(proof.text.contains("holds: admins\n"), "\(proof.text)")
    }

    @Test("The number of groups is bounded, and the others are counted")
    func groups() throws {
        let lines = (0..<1_100).map { Self.line("PUT", "/", "public", route: "r\($0)") }
        let text = try Self.replay(lines).text
        expect(text.contains("\n100 requests of more than 1000 groups are not listed\n"))
        expect(text.hasSuffix("\n1100 requests: 1100 decided otherwise\n"))
    }

    private static let tokens = """
        name: own, methods: [GET], path: /own, upstream: api, requiresAuthorization: true, authorization: bearer
        name: raw, methods: [GET], path: /raw, upstream: api, requiresAuthorization: true, authorization: pass
        name: sock, methods: [GET], path: /sock, upstream: api, requiresAuthorization: false, websocket: true, \
        stream: { origins: ["https://app.example.com"] }
        """

    private static func log(of credential: String) -> [String] {
        let field = "\"credential\":\"\(credential)\","
        let route = credential == "bearer" ? "own" : "raw"
        return [line("GET", "/\(route)", "forwarded", route: route, "\"upstream\":\"api\"," + field)]
    }

    @Test("The rejections of tokens, WebSockets, claims and rates are those of the configuration that made them")
    func rejections() throws {
        let bearer = "\"credential\":\"bearer\","
        let lines =
            [
                Self.line("GET", "/own", "rate_limited", status: 429, route: "own", bearer),
                Self.line("GET", "/own", "unauthenticated", status: 401, route: "own", bearer + Self.noSession),
                Self.line("GET", "/sock", "csrf_rejected", status: 403, route: "sock"),
                Self.line("GET", "/billing/1", "forbidden", status: 403, route: "invoices"),
                Self.line("TRACE", "/own", "undecided", status: 405),
            ] + Self.log(of: "bearer") + Self.log(of: "unverified")
        let yaml = try ProofTests.extended(Self.tokens)
        let report = try Self.replay(lines, yaml)
        expect(report.text, equals: "\(lines.count) requests: 0 decided otherwise\n")
        let limited = [
            Self.line("GET", "/Admin/1", "rate_limited", status: 429),
            Self.line("PUT", "/site/a", "rate_limited", status: 429),
            Self.line("GET", "/", "rate_limited", status: 429).replacing("localhost", with: "other.test"),
        ]
        let limits = yaml + "limits: { rate: [all] }\nrateLimits: { all: { by: address, requests: 600/m } }\n"
        try expect(Self.replay(limited, limits).text, equals: "3 requests: 0 decided otherwise\n")
    }

    @Test(
        "A rejected token is reported if the route does not read it any more",
        arguments: [
            (", authorization: pass", "forwarded with Authorization that is not verified, by route own", "differs"),
            ("", "401 unless it has a session, by route own", "unknown"), (", authorization: either", "", ""),
        ])
    func rejectedTokens(other: String, now: String, kind: String) throws {
        let line = Self.line(
            "GET", "/own", "unauthenticated", status: 401, route: "own", "\"credential\":\"bearer\"," + Self.noSession)
        let routes = Self.tokens.replacing(", authorization: bearer", with: other)
        let report = try Self.replay([line], try ProofTests.extended(routes))
        expect(report.exitCode, equals: (now.isEmpty ? 0 : 3), "\(report.text)")
        expect(now.isEmpty || report.text.contains(kind) && report.text.contains(now), "\(report.text)")
    }

    @Test("A WebSocket is reported if the route does not allow one any more")
    func webSockets() throws {
        let line = Self.line("GET", "/sock", "public", status: 101, route: "sock", "\"upstream\":\"api\",")
        let same = try Self.replay([line], try ProofTests.extended(Self.tokens))
        expect(same.text, equals: "1 requests: 0 decided otherwise\n")
        let allowing = ", websocket: true, stream: { origins: [\"https://app.example.com\"] }"
        let routes = Self.tokens.replacing(allowing, with: "")
        expect(routes != Self.tokens)
        let report = try Self.replay([line], try ProofTests.extended(routes))
        expect(report.text.contains("forwarded to api by route sock, not as a WebSocket"), "\(report.text)")
    }

    @Test(
        "Requests that a token or an unverified field permitted are reported if the route does not read it any more",
        arguments: [
            ("bearer", "401, route own requires a session"), ("unverified", "401, route raw requires a session"),
        ])
    func credentials(credential: String, now: String) throws {
        let routes = Self.tokens.replacing(", authorization: \(credential == "bearer" ? "bearer" : "pass")", with: "")
        let report = try Self.replay(Self.log(of: credential), try ProofTests.extended(routes))
        expect(report.text.contains(now), "\(report.text)")
        expect(report.text.hasSuffix("\n1 requests: 1 decided otherwise\n"), "\(report.text)")
    }
}
