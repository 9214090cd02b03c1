import CloakroomCore
import TestSupport
import Testing

/// Rules about what requests and responses carry, on each combination of HTTP versions of client and upstream.
@Suite("Field rules over all HTTP versions", .serialized)
struct FieldRuleTests {
    @Test(
        "Rules 1, 2, 3, 7, 12, 23, 26, 43, 52 and 78: what of a request reaches upstreams of both versions",
        arguments: requests, FieldRule.Versions.all)
    func request(rule: FieldRule, versions: FieldRule.Versions) async throws { try await rule.run(versions) }

    @Test(
        "Rule 30: a response that depends on a session is not stored by shared caches, unless the upstream allows it",
        arguments: caching, FieldRule.Versions.all)
    func sharedCaches(rule: FieldRule, versions: FieldRule.Versions) async throws { try await rule.run(versions) }

    @Test(
        "Rules 26, 29, 30, 44, 45 and 52: what of a response reaches clients of both versions",
        arguments: responses, FieldRule.Versions.all)
    func response(rule: FieldRule, versions: FieldRule.Versions) async throws { try await rule.run(versions) }

    // MARK: - Requests

    private static let forged: FieldRule.Fields = [
        // Rules 1, 2 and 12.
        ("Authorization", "Bearer forged"), ("AUTHORIZATION", "Bearer forged"), ("X-Api-Token", "forged"),
        ("X_API_TOKEN", "forged"), ("X.Api.Token", "forged"), ("x-api_token", "forged"), ("Proxy", "http://forged"),
        ("Proxy-Authorization", "Basic forged"), ("X-Client-Cert-Subject", "CN=forged"),
        ("X_Client_Cert_Subject", "CN=forged"),
        // Other spellings of the fields that frame a message.
        ("Content_Length", "forged"), ("Transfer_Encoding", "forged"), ("Transfer.Encoding", "forged"),
        // Rule 7.
        ("Forwarded", "for=forged"), ("Via", "1.1 forged"), ("X-Forwarded-For", "forged"),
        ("X_Forwarded_For", "forged"), ("X-Forwarded-Proto", "forged"), ("X-Forwarded-Host", "forged"),
        ("X-Forwarded-Port", "forged"), ("X-Forwarded-Server", "forged"), ("X-Real-IP", "forged"),
        ("X-Request-Id", "forged"), ("X_Request_Id", "forged"), ("Traceparent", "forged"), ("Tracestate", "forged=1"),
        // Rule 43.
        ("X-HTTP-Method-Override", "forged"), ("X_HTTP_Method_Override", "forged"), ("X-Original-URL", "/forged"),
        ("X-Rewrite-URL", "/forged"), ("Client-IP", "forged"), ("True-Client-IP", "forged"), ("Remote-User", "forged"),
        ("Remote_User", "forged"), ("X-Forwarded-User", "forged"), ("X-Authenticated-User", "forged"),
        ("X-Auth-Request-Email", "forged"), ("SSL-Client-Cert", "forged"), ("SSL_Client_S_DN", "CN=forged"),
        ("SSL-Client-Verify", "forged"), ("X-SSL-Client-S-DN", "CN=forged"), ("X-User-Id", "forged"),
        ("OIDC_CLAIM_sub", "forged"), ("Script_Name", "/forged"), ("X-Envoy-Original-Path", "/forged"),
    ]

    /// Rules 1, 2, 7 and 43: forged fields are replaced or removed, on each route.
    private static let routes = ["/public/a", "/token/a", "/private/a"].map { path in
        FieldRule("forged fields for \(path)") {
            $0.path = path
            $0.request = forged + [("X-Kept", "yes")]
        } check: { outcome in
            let request = outcome.request ?? FieldRule.Message()
            expect(outcome.response.body, equals: "ok")
            expect(!request.values.contains("forged"))
            expect(request["x-kept"], equals: ["yes"])
            expect(request["x-api-token"], equals: (path == "/public/a" ? [] : [Canary.apiToken]))
            expect(request["authorization"], equals: path == "/private/a" ? ["Bearer \(Canary.accessToken)"] : [])
            expect(request["x-forwarded-for"], equals: ["127.0.0.1"])
            expect(request["x-forwarded-proto"], equals: ["http"])
            expect(request["x-forwarded-host"], equals: ["gateway.test"])
            expect(request["forwarded"], equals: ["for=127.0.0.1;proto=http;host=\"gateway.test\""])
            expect(request["via"], equals: [outcome.client == .http1 ? "1.1 cloakroom" : "2.0 cloakroom"])
            expect(request["x-request-id"].count == 1 && request["traceparent"].count == 1)
            expect(request[outcome.upstream == .http1 ? "host" : ":authority"], equals: ["gateway.test"])
            expect(request["host"].count, equals: (outcome.upstream == .http1 ? 1 : 0))
        }
    }

    private static let requests = routes + handled + trailers + rejected

    private static let handled: [FieldRule] = [
        FieldRule("rule 3: Connection names fields") {
            $0.request = [
                ("Connection", "authorization, x-api-token, cookie, host, x-forwarded-for, via, x-mine"),
                ("X-Mine", "1"),
            ]
        } check: { outcome in
            // In HTTP/2 the field makes a request malformed (RFC 9113 §8.2.2).
            if outcome.client == .http2 { return expect(outcome.isRejected) }
            let request = outcome.request ?? FieldRule.Message()
            expect(request["authorization"], equals: ["Bearer \(Canary.accessToken)"])
            expect(request["x-api-token"], equals: [Canary.apiToken])
            expect(request["x-forwarded-for"], equals: ["127.0.0.1"])
            expect(request["via"].count, equals: 1)
            expect(request["x-mine"].isEmpty && request["connection"].allSatisfy { $0 == "TE" })
        },
        FieldRule("hop-by-hop fields") {
            $0.request = [
                ("Keep-Alive", "timeout=9"), ("Proxy-Connection", "keep-alive"), ("Upgrade", "h2c"),
                ("HTTP2-Settings", "AAMAAABkAAQAoAAAAAIAAAAA"),
            ]
        } check: { outcome in
            if outcome.client == .http2 { return expect(outcome.isRejected) }
            expect(outcome.request?.lacks("keep-alive", "proxy-connection", "upgrade", "http2-settings"), equals: true)
            expect(outcome.request?.lacks("transfer-encoding"), equals: true)
        },
        FieldRule("rule 52: the session cookie on a route with sessions") {
            $0.request = [("Cookie", "theme=dark"), ("X_Cookie", "a=1")]
        } check: { outcome in
            expect(outcome.response.body, equals: "ok")
            expect(outcome.request?["cookie"], equals: ["theme=dark"])
            expect(outcome.request?.values.contains(Ask.cookieValue), equals: false)
        },
        FieldRule("rule 52: the session cookie on a public route") {
            $0.path = "/public/a"
        } check: { outcome in
            expect(outcome.response.body, equals: "ok")
            expect(outcome.request?["cookie"], equals: [])
            expect(outcome.request?.values.contains(Ask.cookieValue), equals: false)
        },
        FieldRule("rules 12 and 23: own credentials without a session") {
            $0.isSignedIn = false
            $0.request = [
                ("Authorization", "Bearer \(Canary.accessToken)"), ("X-API-TOKEN", Canary.apiToken),
                ("Cookie", "__Host-cloakroom=\(String(repeating: "A", count: 43))"),
            ]
        } check: { outcome in
            expect(outcome.response.status == 401 && outcome.request == nil)
        },
        FieldRule("Identity rule 22: configured claim fields reach upstreams of both versions only from the gateway") {
            $0.path = "/public/a"
            $0.request = [("X-Department", "forged"), ("X_DEPARTMENT", "forged")]
            $0.adjust = { $0.upstreams[0].claimHeaders = [ClaimHeader("X-Department", claim: "sub")] }
        } check: {
            expect($0.response.body, equals: "ok")
            expect($0.request?.values.contains("forged"), equals: false)
        },
        FieldRule("rule 78: Expect") {
            $0.path = "/public/a"
            $0.request = [("Expect", "100-continue")]
            $0.body = "hello"
        } check: { outcome in
            expect(outcome.response.status, equals: 200)
            expect(outcome.request?.body, equals: "hello")
            expect(outcome.request?["expect"], equals: [])
        },
    ]

    /// With and without fields of a connection, which make a trailer section of HTTP/2 malformed.
    private static let trailers = [true, false].map { hasConnectionFields in
        FieldRule("rules 43 and 52: trailers, with fields of a connection: \(hasConnectionFields)") {
            $0.path = "/public/a"
            $0.body = "hello"
            let ofConnection: FieldRule.Fields = hasConnectionFields ? [("Transfer-Encoding", "forged")] : []
            $0.requestTrailers = forged + ofConnection
            $0.requestTrailers += [("Cookie", "forged=1"), ("Content-Length", "forged"), ("Host", "forged")]
            $0.requestTrailers.append(("X-Sum", "1"))
        } check: { outcome in
            let isServed = outcome.request != nil && outcome.response.status == 200
            if hasConnectionFields, outcome.client == .http2, !isServed { return }
            expect(hasConnectionFields || isServed)
            expect(outcome.request?.body, equals: "hello")
            expect(outcome.request?.trailers.map(\.0), equals: ["x-sum"])
            expect(outcome.request?.values.contains("forged"), equals: false)
        }
    }

    /// Rule 26, and requests that two recipients could divide differently.
    private static let rejected = invalidRequests.map { name, fields in
        FieldRule(name) {
            $0.path = "/public/a"
            $0.request = fields
            $0.body = "hello"
        } check: { outcome in
            expect(outcome.request == nil)
            expect([nil, 400, 501].contains(outcome.response.status))
        }
    }

    private static let invalidRequests: [(String, FieldRule.Fields)] = [
        ("rule 26: NUL in a value", [("X-Value", "a\0b")]),
        ("rule 26: CR in a value", [("X-Value", "a\rb")]),
        ("rule 26: LF in a value", [("X-Value", "a\nb")]),
        ("two lengths", [("Content-Length", "2"), ("Content-Length", "5")]),
        ("a list of lengths", [("Content-Length", "5, 2")]),
        ("an invalid length", [("Content-Length", "+5")]),
        ("a length and a transfer coding", [("Content-Length", "5"), ("Transfer-Encoding", "chunked")]),
        ("an unknown transfer coding", [("Transfer-Encoding", "xchunked")]),
        ("another host", [("Host", "other.test")]),
        ("white space after a name", [("X-Value ", "a")]),
        ("a name with a control", [("X\u{1}", "a")]),
    ]

    // MARK: - Responses

    private static let ownCookies: FieldRule.Fields = [
        ("Set-Cookie", "__Host-cloakroom=forged; Path=/"), ("Set-Cookie", "__Host-cloakroom = forged; Max-Age=0"),
        ("Set-Cookie", "=__Host-cloakroom=forged"),
    ]

    /// Rule 30: the fields of a response, and what is expected of `Cache-Control` and `Vary`.
    private static let caching =
        cachingCases.map { fields, cacheControl, vary in
            FieldRule(
                "rule 30: a session's response with \(fields.map(\.1))",
                arrives: ["cache-control": cacheControl, "vary": vary]
            ) { $0.response = fields }
        } + targetedCases

    /// Rule 30: fields that caches obey instead of `Cache-Control`, and whether `Cache-Control` permits them.
    private static let targetedCases = permissions.map { fields, isPermitted in
        FieldRule("rule 30: fields for certain caches with \(fields.map(\.1))") {
            $0.response = targeted + fields + [("X-Accel-Buffering", "no"), ("X-Remote-Control", "a")]
            $0.trailers = targeted + [("X-Sum", "1")]
        } check: { outcome in
            expect(outcome.response.body, equals: "ok")
            let names = Set(targeted.map { $0.0.lowercased() })
            expect(Set(outcome.response.fields.map(\.0)).intersection(names), equals: (isPermitted ? names : []))
            expect(outcome.response["x-accel-buffering"] == ["no"] && outcome.response["x-remote-control"] == ["a"])
            expect(outcome.response.trailers.map(\.0), equals: ["x-sum"])
        }
    }

    private static let permissions: [(FieldRule.Fields, Bool)] = [
        ([], false), ([("Cache-Control", "max-age=60")], false), ([("Cache-Control", "private")], false),
        ([("Cache-Control", "no-store")], false), ([("Cache-Control", "public, no-store")], false),
        ([("Cache-Control", "public"), ("Cache-Control", "private")], false), ([("Cache-Control", "public")], true),
        ([("Cache-Control", "s-maxage=60")], true), ([("Cache-Control", "must-revalidate, max-age=1")], true),
    ]

    private static let targeted: FieldRule.Fields = [
        ("CDN-Cache-Control", "max-age=600"), ("Cloudflare-CDN-Cache-Control", "max-age=600"),
        ("cdn_cache_control", "max-age=600"), ("Surrogate-Control", "max-age=600"), ("X-Accel-Expires", "600"),
        ("Edge-Control", "cache-maxage=10m"),
    ]

    private static let cachingCases: [(FieldRule.Fields, [String], [String])] = [
        ([], ["private"], ["Cookie"]),
        // What only the Authorization of the request would protect (RFC 9111 §3.5).
        ([("Cache-Control", "max-age=60"), ("Vary", "Accept")], ["max-age=60", "private"], ["Accept", "Cookie"]),
        ([("Cache-Control", "no-cache")], ["no-cache", "private"], ["Cookie"]),
        ([("Cache-Control", "private=\"a\"")], ["private=\"a\"", "private"], ["Cookie"]),
        ([("Cache-Control", "x=\", public, \"")], ["x=\", public, \"", "private"], ["Cookie"]),
        ([("Cache-Control", "publicx, xs-maxage=1")], ["publicx, xs-maxage=1", "private"], ["Cookie"]),
        // What permits or forbids shared caches is not changed.
        ([("Cache-Control", "public"), ("Vary", "Accept")], ["public"], ["Accept", "Cookie"]),
        ([("Cache-Control", "public"), ("Vary", "cookie")], ["public"], ["cookie"]),
        ([("Cache-Control", "max-age=1, S-MaxAge=60")], ["max-age=1, S-MaxAge=60"], ["Cookie"]),
        ([("Cache-Control", "must-revalidate")], ["must-revalidate"], ["Cookie"]),
        ([("Cache-Control", "private"), ("Vary", "cookie")], ["private"], ["cookie"]),
        ([("Cache-Control", "no-store")], ["no-store"], ["Cookie"]),
        ([("Cache-Control", "max-age=1"), ("Cache-Control", "No-Store")], ["max-age=1", "No-Store"], ["Cookie"]),
    ]

    private static let responses = forwarded + hopByHop + invalid

    private static let forwarded: [FieldRule] = [
        FieldRule(
            "Rule 30: a response that depends on no session is not changed",
            arrives: ["cache-control": [], "vary": [], "cdn-cache-control": ["max-age=600"]]
        ) {
            $0.path = "/public/a"
            $0.response = [("CDN-Cache-Control", "max-age=600")]
        },
        FieldRule("rule 30: an optional session", arrives: ["cache-control": [], "vary": ["Cookie"]]) {
            $0.isSignedIn = false
            $0.adjust = { $0.routes[2].requiresAuthorization = false }
        },
        FieldRule("Rules 29 and 52: an upstream can neither set nor clear the session cookie") {
            $0.interim = ownCookies + [("Link", "</a>")]
            $0.response = ownCookies + [("Set-Cookie", "theme=dark"), ("Set-Cookie", "__Host-cloakroom2=y")]
            $0.trailers = ownCookies + [("X-Sum", "1")]
        } check: { outcome in
            expect(outcome.response.body, equals: "ok")
            expect(!outcome.response.values.contains("forged"))
            expect(outcome.response["set-cookie"], equals: ["theme=dark", "__Host-cloakroom2=y"])
            expect(outcome.response.interim.map { $0.filter { $0.0 != ":status" }.map(\.1) }, equals: [["</a>"]])
            expect(outcome.response.trailers.map(\.0), equals: ["x-sum"])
        },
        FieldRule("Rules 29, 44 and 45: fields that are removed are counted") {
            $0.interim = [("Link", "</a>; token=\(Canary.apiToken)"), ownCookies[0]]
            $0.response = [
                ("X-Debug", "got \(Canary.accessToken)."), ("X_API_TOKEN", "something"), ownCookies[0],
                ("Authorization", "Bearer other"), ("Location", "/?key=\(Canary.apiToken)"),
                ("Set-Cookie", "a=\(Canary.accessToken); Path=/"), ("Set-Cookie", "theme=dark"),
                ("Clear-Site-Data", "\"cache\", \"cookies\""), ("X-Kept", "yes"),
            ]
            $0.trailers = [("X-Trace", Canary.apiToken), ownCookies[0], ("X-Sum", "1")]
            $0.metrics = [("injected_value", 5), ("injected_name", 2), ("clear_site_data", 1)].map {
                "cloakroom_response_fields_removed_total{reason=\"\($0)\",upstream=\"api\"} \($1)"
            }
        } check: { outcome in
            // The values were sent, so they could be reflected.
            expect(outcome.request?["authorization"], equals: ["Bearer \(Canary.accessToken)"])
            expect(outcome.response.body, equals: "ok")
            expect(!outcome.response.values.contains("canary") && !outcome.response.values.contains("forged"))
            expect(outcome.response.lacks("link", "x-debug", "x_api_token", "authorization", "location", "x-trace"))
            expect(outcome.response.lacks("clear-site-data"))
            expect(outcome.response["set-cookie"], equals: ["theme=dark"])
            expect(outcome.response["x-kept"], equals: ["yes"])
            expect(outcome.response.trailers.map(\.0), equals: ["x-sum"])
        },
        FieldRule("Rules 52 and 89: what is set or removed does not come back in trailers") {
            $0.path = "/public/a"
            $0.body = "hello"
            $0.requestTrailers = [("Referer-Id", "forged"), ("X_Tenant", "forged"), ("X-Sum", "1")]
            $0.trailers = [("X_Debug", "forged"), ("X-Node", "forged"), ("X-Kept", "1"), ("X-Sum", "1")]
            $0.adjust = {
                $0.routes[2].requestFields = [
                    FieldChange(.set, "X-Tenant", "acme"), FieldChange(.remove, "Referer-Id"),
                ]
                $0.routes[1].responseFields = [FieldChange(.set, "X-Node", "1")]
                $0.responseFields.changes = [FieldChange(.remove, "X-Debug"), FieldChange(.default, "X-Kept", "2")]
            }
        } check: { outcome in
            expect(outcome.request?.trailers.map(\.0), equals: ["x-sum"])
            expect(outcome.response.trailers.map(\.0), equals: ["x-kept", "x-sum"])
        },
        FieldRule(
            "Rules 44 and 90: a policy that does not arrive, or that browsers ignore, does not replace a preset",
            arrives: [
                "content-security-policy": ["frame-ancestors 'self'"], "content_security_policy": ["other"],
                "referrer-policy": ["origin"],
            ]
        ) {
            $0.response = [
                ("Content-Security-Policy", "default-src \(Canary.apiToken)"), ("Content_Security_Policy", "other"),
                ("X_Frame_Options", "DENY"), ("Referrer-Policy", "origin"),
            ]
            $0.adjust = { $0.responseFields.preset = .page }
        },
        FieldRule("rule 45: Clear-Site-Data", arrives: ["clear-site-data": ["\"cache\""]]) {
            $0.response = [
                ("Clear-Site-Data", "\"cookies\""), ("Clear-Site-Data", "\"*\""), ("Clear-Site-Data", "\"cache\""),
            ]
        },
        FieldRule(
            "CORS fields of the upstream",
            arrives: [
                "access-control-allow-origin": ["https://app.gateway.test"],
                "access-control-allow-credentials": ["true"],
            ]
        ) {
            $0.response = [("Access-Control-Allow-Origin", "*"), ("Access-Control-Allow-Credentials", "true")]
            $0.request = [("Origin", "https://app.gateway.test")]
            $0.adjust = { $0.crossSite.corsOrigins = ["https://app.gateway.test"] }
        },
    ]

    /// Fields of a connection, and whether HTTP/2 permits them.
    private static let hopByHop = hopByHopCases.map { fields, isPermitted in
        FieldRule("hop-by-hop fields of a response, permitted in HTTP/2: \(isPermitted)") {
            $0.response = fields
        } check: { outcome in
            if !isPermitted, outcome.upstream == .http2 { return expect(outcome.response.status, equals: 502) }
            expect(outcome.response.body, equals: "ok")
            for (name, _) in fields where name != "Connection" { expect(outcome.response.lacks(name.lowercased())) }
            expect(outcome.response["connection"].allSatisfy { $0 == "close" })
        }
    }

    private static let hopByHopCases: [(FieldRule.Fields, Bool)] = [
        (
            [
                ("Connection", "x-mine"), ("X-Mine", "1"), ("Keep-Alive", "timeout=9"), ("Upgrade", "h2c"),
                ("Proxy-Connection", "close"), ("Proxy-Authenticate", "Basic"), ("Trailer", "X-Sum"),
            ], false
        ),
        ([("Proxy-Authenticate", "Basic"), ("Proxy-Authentication-Info", "a"), ("Trailer", "X-Sum")], true),
    ]

    /// Rule 26, and responses that two recipients could divide differently.
    private static let invalid = invalidResponses.map { name, fields in
        FieldRule(name) {
            $0.response = fields
        } check: { outcome in
            expect(outcome.response.status, equals: 502)
            expect(empty: outcome.response["x-value"])
            expect(!outcome.response.values.contains("forged"))
        }
    }

    private static let invalidResponses: [(String, FieldRule.Fields)] = [
        ("rule 26: NUL in a value", [("X-Value", "a\0b")]),
        ("rule 26: CR in a value", [("X-Value", "a\rSet-Cookie: forged")]),
        ("two lengths", [("Content-Length", "2"), ("Content-Length", "5")]),
        ("an invalid length", [("Content-Length", "0x2")]),
        ("a length and a transfer coding", [("Content-Length", "2"), ("Transfer-Encoding", "chunked")]),
        ("a name with a control", [("X\u{1}", "a")]),
    ]
}
