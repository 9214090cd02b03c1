import CloakroomCore
import TestSupport
import Testing

/// Known vulnerabilities of other proxies. The numbers are those of the rules in the security model.
@Suite("Security rules", .serialized)
struct SecurityRuleTests {
    @Test("A rule", arguments: fields + paths + policy)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    private static func raw(_ line: String, _ fields: String = "Host: a\r\n") -> String {
        "\(line) HTTP/1.1\r\n\(fields)\r\n"
    }

    // MARK: - Fields

    private static let token = "X-API-TOKEN: \(Canary.apiToken)"
    private static let bearer = "Authorization: Bearer \(Canary.accessToken)"

    private static let fields = [
        Scenario(
            "Rule 3: Connection cannot remove the length of a body (RFC 9110 §7.6.1)",
            .ok(Ask.post("/public/a", "Connection: content-length", body: "GET /public/evil HTTP/1.1\r\n\r\n")),
            sent: [.init(text: "GET /public/evil…")])
    ]

    // MARK: - Paths

    private static let paths = [
        Scenario(
            "Rules 4 and 23: policy evaluates only the path, and on a local 401 the upstream receives zero bytes",
            .each(
                [
                    Ask.get("/private/1"), Ask.get("/private/1?p=/public/a"), Ask.get("/private/1?/../../public/a"),
                    Ask.get("http://gateway.test/private/1?x=http://gateway.test/public/a"),
                    Ask.get("/%70rivate/1"), Ask.post("/private/1", body: "hello"),
                ], 401), sent: []),
        Scenario(
            "Rule 5: a fragment in the target is 400",
            .each(
                ["/public/a#b", "/public/a%23b", "/public/a?b#c", "/private/a#/public/a"].map { Ask.get($0) }, 400),
            sent: []),
        Scenario(
            "Rule 6: a path without a unique normal form is 400",
            .each(
                [
                    "/public/../private/a", "/public/./a", "/public/..", "/public/.", "/public/%2e%2e/private/a",
                    "/public/%2E/a", "/public/a%2fb", "/public/a%5cb", "/public/a\\b", "/public/a%00b", "/public/a;b",
                    "/public/a%3bb", "/public//a", "//public/a", "/public/a%", "/public/a%4", "/public/a%zz",
                    "/public/a%0d%0ab", "/public/\u{e4}",
                ].map { Ask.get($0) }, 400), sent: []),
        Scenario(
            "Rule 6: the upstream receives the path that policy evaluated",
            .ok(Ask.get("/public/%61%7e%c3%a4?q=%2e%2E/;")), .ok(Ask.get("http://gateway.test/%70ublic/b?c")),
            sent: ["GET /public/a~%C3%A4?q=%2e%2E/; HTTP/1.1", "GET /public/b?c HTTP/1.1"]),
        Scenario(
            "Rule 27: routes that are not listed are denied",
            .each(
                [
                    "/", "/public", "/publicx/a", "/publicx/", "/Public/a", "/private", "/auth/", "/auth/x", "/live",
                    "/metrics",
                ].flatMap { [Ask.get($0), Ask.get($0, Ask.cookie)] }, 404), sent: []),
        Scenario(
            "Rule 27: methods that are not listed are denied",
            .each(
                ["PATCH", "BREW", "get", "PROPFIND"].map { raw("\($0) /public/a") }, 405,
                has: ["Allow: GET, HEAD, POST, PUT, DELETE, OPTIONS"]), sent: []),
    ]

    // MARK: - Policy

    private static let strange = FakeSessions.strangeCookie.dropFirst("Cookie: ".count)

    private static let policy = [
        Scenario(
            "Rules 7 and 8: no client field changes policy",
            .each(
                [
                    "User-Agent: kube-probe/1.0", "X-Original-URL: /public/a", "X-Rewrite-URL: /public/a",
                    "X-Forwarded-Uri: /public/a", "X-Forwarded-Prefix: /public", "X-HTTP-Method-Override: OPTIONS",
                    "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Proto: https", "Forwarded: for=127.0.0.1",
                    "X-Auth-Request-Redirect: /public/a", "Referer: /public/a", "Origin: http://gateway.test",
                ].map { Ask.get("/private/a", $0) }, 401), sent: []),
        Scenario(
            "Rules 12 and 23: a client's own Authorization never satisfies a protected route",
            .each([bearer, "Authorization: Basic eDp5", token].map { Ask.get("/private/a", $0) }, 401), sent: []),
        Scenario(
            "Rules 14 and 20: a malformed cookie denies access",
            .each(
                [
                    "Cookie: __Host-cloakroom=", "Cookie: __Host-cloakroom", "Cookie: __Host-cloakroom=short",
                    "\(Ask.cookie)A", "\(Ask.cookie)=", "Cookie: =;;;===; __Host-cloakroom=\"x\"",
                    "\(Ask.cookie); \(strange)", "\(Ask.cookie)\r\nCookie: \(strange)",
                    "Cookie: x__Host-cloakroom=\(Ask.cookie.dropFirst(25))",
                    Ask.cookie.replacing("__Host-cloakroom", with: "__host-CLOAKROOM"), String(Ask.cookie.dropLast()),
                    Ask.cookie.replacing("=", with: "=\"") + "\"",
                    "Cookie: \u{fffd}\u{1f36a}", FakeSessions.strangeCookie,
                ].map { Ask.get("/private/a", $0) }, 401, reason: "no_session"),
            .run { expect(empty: $0.upstream.connections) },
            // Two copies of the same ticket count as one.
            .ok(Ask.get("/private/a", "\(Ask.cookie); \(Ask.cookieValue)"))),
        Scenario(
            "Rule 14: CONNECT, TRACE, a missing or duplicate Host are 4xx or 501, and the gateway continues to serve",
            .each([raw("CONNECT a:1", "Host: a:1\r\n"), raw("CONNECT /private/a")], 501),
            .each([raw("TRACE /private/a")], 405),
            .each([raw("GET /private/a", ""), raw("GET /private/a", "Host: a\r\nHost: b\r\n"), raw("GET ")], 400),
            .run { expect(empty: $0.upstream.connections) }, .ok()),
    ]
}
