import CloakroomConfig
import CloakroomCore
import TestSupport
import Testing

@Suite("requestFields and responseFields")
struct FieldChangesSectionTests {
    /// The valid configuration with a line of its second route, `GET /videos/{id}` with a session, in line 23, and
    /// further lines at the end, from 27 on.
    private static func yaml(_ line: String, _ more: String = "") -> String {
        ConfigFixture.good.replacing("    path: /videos/{id}\n", with: "    path: /videos/{id}\n    \(line)\n") + more
    }

    private static let many = (0..<25).map { "X-\($0): a" }.joined(separator: ", ")
    private static let long = (0..<9).map { "X-\($0): \(String(repeating: "a", count: 1_024))" }.joined(separator: ", ")
    private static let reserved =
        "it frames or describes a message, or the gateway decides about it (leave it out)"

    private static let errors: [(String, String)] = [
        ("requestFields: { set: { X-A: \"{user.mail}\" } }", "{user.mail} (did you mean \"{user.id}\"?)"),
        ("requestFields: { set: { X-A: \"{idd}\" } }", "unknown placeholder {idd} (did you mean \"{id}\"?)"),
        ("responseFields: { set: { X-A: \"{route}\" } }", "unknown placeholder {route} (write one of: {request_id})"),
        ("requestFields: { set: { X-A: \"{user.id\" } }", "has a placeholder without } (write such as {request_id})"),
        ("requestFields: { set: { X-A: é } }", "must be visible ASCII, at most 1024 bytes (write such as nosniff)"),
        ("requestFields: { set: { X-A: \"a\\r\\nb: c\" } }", "must be visible ASCII, at most 1024 bytes"),
        ("requestFields: { set: { \"X A\": a } }", "must be the name of a field, not \"X A\" (write such as X-Tenant)"),
        ("requestFields: { set: { X-A: a, X_A: b } }", "X_A: conflicts with X-A, which is the same field (keep one of"),
        (
            "responseFields: { set: { X-A: a }, add: { x.a: b } }",
            "responseFields.add.x.a: conflicts with X-A, which is"
        ),
        ("requestFields: { set: { X-Api-Token: a } }", "X-Api-Token conflicts with an API token or a claim header"),
        ("responseFields: { set: { Strict-Transport-Security: a } }", "not supported here (write responseFields.hsts)"),
        ("responseFields: { add: { Cache-Control: max-age=60 } }", "mix up users (add private or no-store)"),
        ("responseFields: { remove: [Cache-Control] }", "mix up users (leave Cache-Control out)"),
        (
            "requestFields: { set: { X-User: \"{user.id}\" } }",
            "removes it from requests (write another name, such as X-Account; for a claim of the user, claimHeaders of"
        ),
        ("requestFields: { set: { X-Client-Cert-Subject: a } }", "Subject is not supported: as upstreams may trust it"),
        ("requestFields: { remove: [X-User] }", reserved),
        ("requestFields: { remove: [X-Client-Cert-Subject] }", reserved),
        ("responseFields: { set: { X-Client-Cert-Subject: a } }", reserved),
        ("responseFields: { set: { Vary: Accept } }", "mix up users (leave Vary out)"),
    ]

    @Test("Each mistake is reported with its key and a remedy", arguments: errors)
    func mistakes(_ line: String, _ message: String) throws {
        let found = try ConfigFixture(Self.yaml(line)).valueErrors()
        expect(found.count, equals: 1, "\(found)")
        expect(found.first?.hasPrefix("cloakroom.yaml:23:"), equals: true)
        expect(found.first?.contains(message), equals: true, "\(found)")
    }

    @Test(
        "Fields that frame a message or that the gateway decides about are reserved",
        arguments: [
            "Content-Length", "transfer_encoding", "Host", "Authorization", "Cookie", "Set-Cookie", "Via", "Forwarded",
            "X-Forwarded-For", "X-Forwarded-Anything", "Date", "Content-Type", "Content-Encoding", "Content-Range",
            "Location",
            "Connection", "TE", "Access-Control-Allow-Origin", "Sec-WebSocket-Key",
        ])
    func reservedNames(_ name: String) throws {
        for key in ["requestFields", "responseFields"] {
            let found = try ConfigFixture(Self.yaml("\(key): { set: { \(name): a } }")).valueErrors()
            expect(found.count == 1 && found[0].hasSuffix(Self.reserved), "\(found)")
            guard name != "Set-Cookie" || key == "requestFields" else { continue }
            try expect(
                ConfigFixture(Self.yaml("\(key): { remove: [\(name)] }")).valueErrors().count, equals: 1, "\(name)")
        }
    }

    @Test(
        "Names of one side only are reserved there",
        arguments: [
            ("requestFields", "X-Request-Id", "responseFields"), ("requestFields", "X-User", "responseFields"),
            ("requestFields", "If-Match", "responseFields"), ("responseFields", "User-Agent", "requestFields"),
            ("requestFields", "Content-Security-Policy", "responseFields"),
            ("requestFields", "Content-Disposition", "responseFields"),
            ("requestFields", "Content-Language", "responseFields"),
        ])
    func sides(_ rejected: String, _ name: String, _ accepted: String) throws {
        try expect(ConfigFixture(Self.yaml("\(rejected): { set: { \(name): a } }")).valueErrors().count, equals: 1)
        try expect(empty: ConfigFixture(Self.yaml("\(accepted): { set: { \(name): a } }")).valueErrors())
    }

    @Test(
        "Rule 90: with sessions, no field that caches obey instead of Cache-Control is sent, but it may be removed",
        arguments: [
            "CDN-Cache-Control", "Cloudflare_CDN-Cache-Control", "Surrogate-Control", "X-Accel-Expires",
            "Edge-Control",
        ])
    func sharedCaches(_ name: String) throws {
        for kind in ["set", "add", "default"] {
            let found = try ConfigFixture(Self.yaml("responseFields: { \(kind): { \(name): a } }")).valueErrors()
            expect(found.count == 1 && found[0].contains("mix up users (leave \(name) out)"), "\(found)")
        }
        try expect(empty: ConfigFixture(Self.yaml("responseFields: { remove: [\(name)] }")).valueErrors())
        let open = ConfigFixture.good.replacing(
            "    path: /episodes\n", with: "    path: /episodes\n    responseFields: { set: { \(name): a } }\n")
        try expect(empty: ConfigFixture(open).valueErrors())
    }

    @Test(
        "Fields of a representation are not set, but may be removed",
        arguments: ["ETag", "last_modified", "Repr-Digest"])
    func validators(_ name: String) throws {
        for kind in ["set", "add", "default"] {
            let found = try ConfigFixture(Self.yaml("responseFields: { \(kind): { \(name): a } }")).valueErrors()
            expect(found.count == 1 && found[0].hasSuffix(Self.reserved), "\(found)")
        }
        try expect(empty: ConfigFixture(Self.yaml("responseFields: { remove: [\(name)] }")).valueErrors())
        try expect(empty: ConfigFixture(Self.yaml("responseFields: { set: { Clear-Site-Data: a } }")).valueErrors())
    }

    @Test("What has no effect is a warning")
    func warnings() throws {
        let open = ConfigFixture.good.replacing(
            "    path: /episodes\n",
            with: "    path: /episodes\n    requestFields: { set: { X-A: a, X-User-Number: \"a-{user.id}\" } }\n")
        var found = try ConfigFixture(open).load().warnings.map(\.description)
        expect(found.count { $0.contains("X-User-Number: {user.id} has no value") }, equals: 1, "\(found)")
        found = try ConfigFixture(Self.yaml("requestFields: { set: { X-A: \"{user.id}\" } }", Self.every)).load()
            .warnings.map(\.description)
        expect(!found.contains { $0.contains("{user.id}") }, "\(found)")
        expect(
            found.count { $0.contains("responseFields.hsts.maxAge: has no effect without https") }, equals: 1,
            "\(found)")
        let secure = ConfigFixture.good.replacing("  cookie: { secure: false }\n", with: "")
            .replacing("127.0.0.1:0\n", with: "127.0.0.1:0\n    behindTLSProxy: true\n")
        for text in [secure, ConfigFixture.good + "trustedProxies: [10.0.0.0/8]\n"] {
            found = try ConfigFixture(text + Self.every).load().warnings.map(\.description)
            expect(!found.contains { $0.contains("hsts") }, "\(found)")
        }
    }

    @Test("The number of names and of bytes is limited", arguments: [many, long])
    func limits(_ fields: String) throws {
        for key in ["requestFields", "responseFields"] {
            let found = try ConfigFixture(Self.yaml("\(key): { set: { \(fields) } }")).valueErrors()
            expect(found.count == 1 && found[0].contains("must be at most 24 names and 8KiB in all"), "\(found)")
        }
        let long = "requestFields: { set: { X-A: \(String(repeating: "a", count: 1_025)) } }"
        try expect(ConfigFixture(Self.yaml(long)).valueErrors().count, equals: 1)
    }

    @Test(
        "HSTS, and what a route cannot have, is checked",
        arguments: [
            (
                "responseFields: { hsts: { maxAge: 364d, includeSubDomains: true, preload: true } }",
                "hsts.preload: requires"
            ),
            ("responseFields: { hsts: { maxAge: 365d, preload: true } }", "hsts.preload: requires"),
            ("responseFields: { hsts: { includeSubDomains: true } }", "hsts.includeSubDomains: has no effect"),
            ("responseFields: { hsts: { maxAge: 1500ms } }", "hsts.maxAge: must be whole seconds"),
            (
                "responseFields: { set: { Cache-Control: public } }",
                "responseFields.set.Cache-Control: conflicts with sessions"
            ),
            ("responseFields: { preset: pages }", "responseFields.preset: must be one of"),
        ])
    func topLevel(_ line: String, _ message: String) throws {
        let found = try ConfigFixture(ConfigFixture.good + line + "\n").valueErrors()
        expect(found.count == 1 && found[0].contains(message), "\(found)")
    }

    @Test("A redirect forwards no request, and gRPC calls have no response fields")
    func conflicts() throws {
        let redirect = "  - { name: old, path: /old, redirect: { to: / }, requestFields: { remove: [A] } }\n"
        let found = try ConfigFixture(ConfigFixture.good + redirect).valueErrors()
        expect(found.contains { $0.contains("routes.2.requestFields: conflicts with redirect") }, "\(found)")
        let call = try ConfigFixture(Self.yaml("grpc: true\n    responseFields: { preset: api }")).valueErrors()
        expect(call.contains { $0.contains("routes.1.responseFields: conflicts with grpc") }, "\(call)")
    }

    private static let fields =
        "requestFields: { set: { X-Tenant: acme, X-Id: \"{id}\" }, remove: [Referer] }\n"
        + "    responseFields: { set: { X-A: \"1\" }, add: { Vary: Accept }, default: { X-B: b }, remove: [Server], preset: api }"
    private static let every = "responseFields: { hsts: { maxAge: 365d, includeSubDomains: true, preload: true } }\n"

    @Test("All keys arrive in the configuration")
    func keys() throws {
        let configuration = try ConfigFixture(Self.yaml(Self.fields, Self.every)).load().configuration
        let route = configuration.routes[1]
        expect(
            route.requestFields,
            equals: [
                FieldChange(.set, "X-Tenant", "acme"), FieldChange(.set, "X-Id", "{id}"),
                FieldChange(.remove, "Referer"),
            ])
        expect(
            route.responseFields,
            equals: [
                FieldChange(.set, "X-A", "1"), FieldChange(.add, "Vary", "Accept"), FieldChange(.default, "X-B", "b"),
                FieldChange(.remove, "Server"),
            ])
        expect(route.responsePreset, equals: .api)
        expect(configuration.routes[0].responsePreset, equals: nil)
        expect(configuration.responseFields.own, equals: .page)
        expect(configuration.responseFields.strictTransport.maxAge, equals: .seconds(31_536_000))
        expect(configuration.requestFieldNames, equals: ["X-Tenant", "X-Id"])
        let overridden = try ConfigFixture().load(overrides: [("routes.0.requestFields.set.X-A", "{route}")])
        expect(overridden.configuration.routes[0].requestFields, equals: [FieldChange(.set, "X-A", "{route}")])
    }

    @Test("explain shows the fields, and routes --diff those that are no longer sent")
    func reports() throws {
        let fixture = try ConfigFixture(Self.yaml(Self.fields, Self.every))
        let lines = fixture.report { .explain($0, method: "GET", target: "/videos/1") }.rows
        expect(lines.contains { $0.hasPrefix("strips:") && $0.contains("Referer, X-Id, X-Tenant") }, "\(lines)")
        expect(lines.contains { $0.hasPrefix("injects:") && $0.hasSuffix("X-Tenant: acme, X-Id: {id}") }, "\(lines)")
        expect(
            lines.contains {
                $0.hasPrefix(
                    "fields: set X-A: 1, add Vary: Accept, default X-B: b, remove Server, over https set"
                        + " Strict-Transport-Security: max-age=31536000; includeSubDomains; preload, default X-Content-Type"
                )
            }, "\(lines)")
        expect(
            !(try ConfigFixture().report { .explain($0, method: "GET", target: "/videos/1") }.text.contains("fields:")))
        let new = try ConfigFixture(Self.yaml("requestFields: { set: { X-Id: \"1\" } }"))
        let report = new.changes(since: fixture)
        let rows = report.rows
        expect(report.exitCode, equals: 0)
        expect(
            rows,
            equals: [
                "fields removed GET /episodes episodes, Strict-Transport-Security",
                "fields removed GET /videos/{id} video, Content-Security-Policy, Cross-Origin-Resource-Policy,"
                    + " Referrer-Policy, Strict-Transport-Security, Vary, X-A, X-B, X-Content-Type-Options, X-Tenant",
            ], "\(rows)")
    }
}
