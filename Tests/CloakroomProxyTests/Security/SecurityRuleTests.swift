import CloakroomCore
import NIOHPACK
import TestSupport
import Testing

/// Known vulnerabilities of other proxies. The numbers are those of the rules in the security model.
@Suite("Security rules", .serialized)
struct SecurityRuleTests {
    private static let forward = GatewaySetup([.request, .send(Reply.ok), .again])

    /// Forged fields of a client.
    private static let forged = [
        "Authorization: Bearer forged", "AUTHORIZATION: Bearer forged", "X-Api-Token: forged", "X_API_TOKEN: forged",
        "X.Api.Token: forged", "x-api_token: forged", "Proxy-Authorization: Basic forged",
    ]

    @Test(
        "Rules 1 and 2: names that normalize to injected ones are dropped on every route, even without injection",
        arguments: ["/public/a", "/token/a", "/private/a"])
    func foldedNames(path: String) async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        try await Self.forward.with(\.sessions, sessions).run { gateway in
            let lines = ["GET \(path) HTTP/1.1", "Host: a", cookie] + Self.forged
            let response = try await gateway.client().exchange(lines.joined(separator: "\r\n") + "\r\n\r\n")
            #expect(response.text == "ok")
            let request = gateway.upstream.requests[0]
            #expect(!request.head.contains("forged"))
            #expect(request.values("X-API-TOKEN") == (path == "/public/a" ? [] : [Canary.apiToken]))
            #expect(
                request.values("Authorization") == (path == "/private/a" ? ["Bearer \(Canary.accessToken)"] : []))
        }
    }

    @Test("Rule 3: Connection cannot remove fields that the gateway sets")
    func namedAway() async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        try await Self.forward.with(\.sessions, sessions).run { gateway in
            let fields = "Connection: authorization, x-api-token, cookie, host, x-forwarded-for, via, traceparent"
            let response = try await gateway.client().exchange(Ask.get("/private/a", fields, cookie))
            #expect(response.text == "ok")
            let request = gateway.upstream.requests[0]
            #expect(request.values("Authorization") == ["Bearer \(Canary.accessToken)"])
            #expect(request.values("X-API-TOKEN") == [Canary.apiToken])
            #expect(request.values("X-Forwarded-For") == ["127.0.0.1"])
            #expect(request.values("Host") == ["gateway.test"])
            #expect(request.values("Via") == ["1.1 cloakroom"])
            #expect(request.values("traceparent").count == 1)
            #expect(request.values("Cookie").isEmpty)
        }
    }

    @Test("Rule 3: Connection cannot remove the length of a body (RFC 9110 §7.6.1)")
    func namedAwayLength() async throws {
        try await Self.forward.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(
                Ask.post("/public/a", "Connection: content-length", body: "GET /public/evil HTTP/1.1\r\n\r\n"))
            #expect(response.text == "ok")
            #expect(gateway.upstream.requests.count == 1)
            #expect(gateway.upstream.requests[0].text.hasPrefix("GET /public/evil"))
        }
    }

    /// Sends requests without a session to protected resources.
    private static func isRejected(_ requests: [String], status: Int) async throws {
        try await forward.run { gateway in
            for request in requests {
                let response = try await gateway.client().exchange(request)
                #expect(response.status == status, "\(request)")
            }
            // Rule 23: the upstream receives no byte and no connection.
            #expect(gateway.upstream.connections.isEmpty)
        }
    }

    @Test("Rules 4 and 23: policy evaluates only the path, and on a local 401 the upstream receives zero bytes")
    func pathOnly() async throws {
        try await Self.isRejected(
            [
                Ask.get("/private/1"), Ask.get("/private/1?p=/public/a"), Ask.get("/private/1?/../../public/a"),
                Ask.get("http://gateway.test/private/1?x=http://gateway.test/public/a"),
                Ask.get("/%70rivate/1"), Ask.post("/private/1", body: "hello"),
            ], status: 401)
    }

    @Test("Rule 5: a fragment in the target is 400")
    func fragment() async throws {
        try await Self.isRejected(
            ["/public/a#b", "/public/a%23b", "/public/a?b#c", "/private/a#/public/a"].map { Ask.get($0) }, status: 400)
    }

    @Test("Rule 6: a path without a unique normal form is 400")
    func normalForm() async throws {
        try await Self.isRejected(
            [
                "/public/../private/a", "/public/./a", "/public/..", "/public/.", "/public/%2e%2e/private/a",
                "/public/%2E/a", "/public/a%2fb", "/public/a%5cb", "/public/a\\b", "/public/a%00b", "/public/a;b",
                "/public/a%3bb", "/public//a", "//public/a", "/public/a%", "/public/a%4", "/public/a%zz",
                "/public/a%0d%0ab", "/public/\u{e4}",
            ].map { Ask.get($0) }, status: 400)
    }

    @Test("Rule 6: the upstream receives the path that policy evaluated")
    func sameForm() async throws {
        try await Self.forward.run { gateway in
            let client = try await gateway.client()
            _ = try await client.exchange(Ask.get("/public/%61%7e%c3%a4?q=%2e%2E/;"))
            _ = try await client.exchange(Ask.get("http://gateway.test/%70ublic/b?c"))
            #expect(
                gateway.upstream.requests.map(\.line)
                    == ["GET /public/a~%C3%A4?q=%2e%2E/; HTTP/1.1", "GET /public/b?c HTTP/1.1"])
        }
    }

    @Test("Rules 7 and 8: no client field changes policy")
    func noFieldChangesPolicy() async throws {
        try await Self.isRejected(
            [
                "User-Agent: kube-probe/1.0", "X-Original-URL: /public/a", "X-Rewrite-URL: /public/a",
                "X-Forwarded-Uri: /public/a", "X-Forwarded-Prefix: /public", "X-HTTP-Method-Override: OPTIONS",
                "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Proto: https", "Forwarded: for=127.0.0.1",
                "X-Auth-Request-Redirect: /public/a", "Referer: /public/a", "Origin: http://gateway.test",
            ].map { Ask.get("/private/a", $0) }, status: 401)
    }

    @Test("Rules 12 and 23: a client's own Authorization never satisfies a protected route")
    func ownBearer() async throws {
        try await Self.isRejected(
            [
                Ask.get("/private/a", "Authorization: Bearer \(Canary.accessToken)"),
                Ask.get("/private/a", "Authorization: Basic eDp5"),
                Ask.get("/private/a", "X-API-TOKEN: \(Canary.apiToken)"),
            ], status: 401)
    }

    @Test("Rules 14 and 20: a malformed cookie denies access")
    func malformedCookie() async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        let other = FakeSessions.strangeCookie.dropFirst("Cookie: ".count)
        try await Self.forward.with(\.sessions, sessions).run { gateway in
            for line in [
                "Cookie: __Host-cloakroom=", "Cookie: __Host-cloakroom", "Cookie: __Host-cloakroom=short",
                "\(cookie)A", "\(cookie)=", "Cookie: =;;;===; __Host-cloakroom=\"x\"", "\(cookie); \(other)",
                "\(cookie)\r\nCookie: \(other)", "Cookie: x__Host-cloakroom=\(cookie.dropFirst(25))",
                cookie.replacing("__Host-cloakroom", with: "__host-CLOAKROOM"),
                "Cookie: \u{fffd}\u{1f36a}", FakeSessions.strangeCookie,
            ] {
                let response = try await gateway.client().exchange(Ask.get("/private/a", line))
                #expect(response.status == 401, "\(line)")
                #expect(response.problemReason == "no_session", "\(line)")
            }
            #expect(gateway.upstream.connections.isEmpty)
            // Two copies of the same ticket count as one.
            let twice = cookie + "; " + cookie.dropFirst("Cookie: ".count)
            let response = try await gateway.client().exchange(Ask.get("/private/a", twice))
            #expect(response.text == "ok")
        }
    }

    @Test("Rule 14: CONNECT, TRACE, a missing or duplicate Host are 4xx or 501, and the gateway continues to serve")
    func oddities() async throws {
        try await Self.forward.run { gateway in
            for (request, status) in [
                ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 501),
                ("CONNECT /private/a HTTP/1.1\r\nHost: a\r\n\r\n", 501),
                ("TRACE /private/a HTTP/1.1\r\nHost: a\r\n\r\n", 405), ("GET /private/a HTTP/1.1\r\n\r\n", 400),
                ("GET /private/a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
                ("GET  HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ] {
                let response = try await gateway.client().exchange(request)
                #expect(response.status == status, "\(request)")
            }
            #expect(gateway.upstream.connections.isEmpty)
            #expect(try await gateway.client().exchange(Ask.get()).text == "ok")
        }
    }

    @Test("Rule 26: CR, LF or NUL in a value to be copied into a field is rejected, from the client and the upstream")
    func controls() async throws {
        try await Self.isRejected(
            ["a\0b", "a\rb", "a\nb", "a\u{7f}b"].map { Ask.get("/public/a", "X: \($0)") }, status: 400)
        try await Self.isRejected(
            ["a\0b", "a\rb"].map { "GET /public/a HTTP/1.1\r\nHost: \($0)\r\n\r\n" }, status: 400)
        for value in ["a\0b", "a\rSet-Cookie: x", "a\u{1}b"] {
            let response = "HTTP/1.1 200 OK\r\nX: \(value)\r\nContent-Length: 2\r\n\r\nok"
            try await GatewaySetup([.request, .send(response)]).run { gateway in
                let response = try await gateway.client().exchange(Ask.get())
                #expect(response.status == 502)
                #expect(response.values("X").isEmpty)
            }
        }
    }

    @Test("Rule 27: routes and methods that are not listed are denied")
    func unlisted() async throws {
        try await Self.isRejected(
            [
                "/", "/public", "/publicx/a", "/publicx/", "/Public/a", "/private", "/auth/", "/auth/x", "/live",
                "/metrics",
            ].map { Ask.get($0) }, status: 404)
        try await Self.forward.run { gateway in
            for method in ["PATCH", "BREW", "get", "PROPFIND"] {
                let response = try await gateway.client().exchange("\(method) /public/a HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(response.status == 405, "\(method)")
                let allowed = Set(response["Allow"]?.split(separator: ", ").map(String.init) ?? [])
                #expect(allowed == ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
            }
            #expect(gateway.upstream.connections.isEmpty)
        }
    }

    @Test("Rules 29 and 52: an upstream can neither set nor clear the session cookie")
    func setCookie() async throws {
        let response =
            "HTTP/1.1 200 OK\r\nSet-Cookie: __Host-cloakroom=x; Path=/\r\nSet-Cookie: theme=dark\r\n"
            + "set-cookie:  __Host-cloakroom = ; Max-Age=0\r\nSet-Cookie: =__Host-cloakroom=x\r\n"
            + "Set-Cookie: __Host-cloakroom2=y\r\nContent-Length: 2\r\n\r\nok"
        let hints = "HTTP/1.1 103 Early Hints\r\nSet-Cookie: __Host-cloakroom=x\r\n\r\n"
        try await GatewaySetup([.request, .send(hints + response)]).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get()).values("Set-Cookie").isEmpty)
            #expect(try await client.response().values("Set-Cookie") == ["theme=dark", "__Host-cloakroom2=y"])
        }
    }

    @Test("Rule 30: a response that depends on a session is not stored by shared caches, unless the upstream allows it")
    func caching() async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        let cases: [(fields: String, cacheControl: [String], vary: [String])] = [
            ("", ["private"], ["Cookie"]),
            // What only the Authorization of the request would protect (RFC 9111 §3.5).
            ("Cache-Control: max-age=60\r\nVary: Accept\r\n", ["max-age=60", "private"], ["Accept", "Cookie"]),
            ("Cache-Control: no-cache\r\n", ["no-cache", "private"], ["Cookie"]),
            ("Cache-Control: private=\"a\"\r\n", ["private=\"a\"", "private"], ["Cookie"]),
            ("Cache-Control: x=\", public, \"\r\n", ["x=\", public, \"", "private"], ["Cookie"]),
            ("Cache-Control: publicx, xs-maxage=1\r\n", ["publicx, xs-maxage=1", "private"], ["Cookie"]),
            // What permits or forbids shared caches is not changed.
            ("Cache-Control: public\r\nVary: Accept\r\n", ["public"], ["Accept", "Cookie"]),
            ("Cache-Control: max-age=1, S-MaxAge=60\r\n", ["max-age=1, S-MaxAge=60"], ["Cookie"]),
            ("Cache-Control: must-revalidate\r\n", ["must-revalidate"], ["Cookie"]),
            ("Cache-Control: private\r\nVary: cookie\r\n", ["private"], ["cookie"]),
            ("Cache-Control: max-age=1\r\nCache-Control: No-Store\r\n", ["max-age=1", "No-Store"], ["Cookie"]),
        ]
        let script = cases.flatMap { fields, _, _ -> [ScriptedUpstream.Step] in
            [.request, .send("HTTP/1.1 200 OK\r\n\(fields)Content-Length: 2\r\n\r\nok")]
        }
        try await GatewaySetup(script + script).with(\.sessions, sessions).http2().run { gateway in
            let client = try await gateway.client()
            for (fields, cacheControl, vary) in cases {
                let response = try await client.exchange(Ask.get("/private/a", cookie))
                #expect(response.values("Cache-Control") == cacheControl, "\(fields)")
                #expect(response.values("Vary") == vary, "\(fields)")
            }
            let streams = try await gateway.http2()
            for (index, (fields, cacheControl, vary)) in cases.enumerated() {
                let request = HTTP2Fields.get("/private/a", ("cookie", String(cookie.dropFirst("Cookie: ".count))))
                let head = try #require(try await streams.exchange(UInt32(2 * index + 1), request).head)
                #expect(head["cache-control"] == cacheControl, "\(fields)")
                #expect(head["vary"] == vary, "\(fields)")
            }
        }
    }

    @Test("Rule 30: a response that depends on no session is not changed")
    func cachingWithoutSession() async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        try await GatewaySetup([.request, .send(Reply.ok)]).with(\.sessions, sessions).run { gateway in
            let open = try await gateway.client().exchange(Ask.get("/public/a", cookie))
            #expect(open.values("Cache-Control").isEmpty)
            #expect(open.values("Vary").isEmpty)
        }
    }
}
