import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The name of a claim")
struct ClaimNameTests {
    /// The claims of a Keycloak user, and some whose names look like paths.
    private static let claims = """
        {"realm_access":{"roles":["buyer","eu"]},"resource_access":{"a/b":{"roles":["editor"]},"c~d":1,"e~1f":2},
        "https://x/roles":["y"],"a.b":"dot","a":{"b":"inner"},"/a":"slash","groups":null,"text":"roles"}
        """

    private static func read(_ text: String) throws -> JSONValue {
        try require(JSONValue(document: Array(text.utf8)))
    }

    @Test(
        "Identity rule 28: a pointer leads through objects, and any other name is one of a claim, with dots and slashes",
        arguments: [
            ("/realm_access/roles", #"["buyer","eu"]"#), ("/resource_access/a~1b/roles", #"["editor"]"#),
            ("/resource_access/c~0d", "1"), ("/resource_access/e~01f", "2"), ("https://x/roles", #"["y"]"#),
            ("a.b", #""dot""#), ("/a.b", #""dot""#), ("/a/b", #""inner""#), ("/~1a", #""slash""#),
            ("text", #""roles""#), ("/text", #""roles""#),
        ])
    func found(name: String, value: String) throws {
        let name = try require(ClaimName(name))
        try expect(Self.read(Self.claims)[claim: name], equals: Self.read(value))
    }

    @Test(
        "Identity rule 28: a step into a list or a text, or a missing member, is no claim, and never another one",
        arguments: [
            "/realm_access/roles/0", "/realm_access/Roles", "/realm_access/roles/buyer", "/text/roles", "/groups",
            "/groups/a", "/resource_access/a/b/roles", "/resource_access/e~1f", "/https:~1~1x/roles",
            "realm_access.roles", "realm_access/roles", "a/b", "~1a", "roles",
        ])
    func none(name: String) throws {
        let name = try require(ClaimName(name))
        try expect(Self.read(Self.claims)[claim: name], equals: nil)
    }

    @Test(
        "RFC 6901 §3: a pointer with another escape, or with an empty name, is none",
        arguments: ["/", "//", "/a/", "/a//b", "/a~", "/~/b", "/a~2", "/a~~1"])
    func malformed(text: String) {
        expect(ClaimName(text), equals: nil)
    }

    @Test("Names are compared by the bytes of what they name")
    func equality() throws {
        expect(ClaimName(stringLiteral: "/groups"), equals: "groups")
        expect(ClaimName(stringLiteral: "/a~1b"), equals: "a/b")
        expect(ClaimName(stringLiteral: "\u{e9}") != "e\u{301}")
        // The slash of a pointer is a byte, whatever follows it.
        let text = "/\u{301}a"
        let combined = try require(ClaimName(text))
        expect(combined.path, equals: ["\u{301}a"])
    }

    @Test("A claim contains those within it")
    func containment() {
        let realm: ClaimName = "realm_access"
        let roles: ClaimName = "/realm_access/roles"
        expect(realm.contains(roles) && realm.contains(realm))
        expect(!roles.contains(realm) && !realm.contains("realm_access/roles") && !realm.contains("/realm"))
    }

    @Test(
        "Identity rule 28: a required claim within objects is met in the provider's shape alone",
        arguments: [
            (#"{"realm_access":{"roles":["buyer"]}}"#, true), (#"{"realm_access":{"roles":"buyer"}}"#, true),
            (#"{"realm_access":"buyer"}"#, false), (#"{"realm_access":["roles","buyer"]}"#, false),
            (#"{"realm_access":[{"roles":["buyer"]}]}"#, false), (#"{"realm_access.roles":["buyer"]}"#, false),
            (#"{"/realm_access/roles":["buyer"]}"#, false), (#"{"roles":["buyer"]}"#, false),
            (#"{"realm_access":{"roles":{"buyer":true}}}"#, false),
            (#"{"realm_access":{"a":{"roles":"buyer"}}}"#, false),
        ])
    func required(claims: String, isMet: Bool) throws {
        let requirement = SessionRequirement(claims: [.init("/realm_access/roles", in: ["buyer"])])
        let now = WallTime(seconds: 1_800_000_000)
        let verdict = requirement.judge(claims: try Self.read(claims), acr: nil, authenticatedAt: nil, now: now)
        expect(verdict, equals: (isMet ? .permitted : .missingClaim("/realm_access/roles")))
    }

    @Test("Identity rule 28: claim headers and rate limits take claims within objects")
    func users() throws {
        let session = ProviderFixture.session(of: ProviderFixture.company, claims: Self.claims)
        let claims = try require(session.claims)
        func lines(_ name: ClaimName) throws -> String? {
            var upstream = UpstreamConfiguration(name: "a", targets: [])
            upstream.claimHeaders = [ClaimHeader("X-Roles", claim: name, separator: UInt8(ascii: ","))]
            let fields = claims.fields(for: try require(ClaimHeaders(upstream)))
            return fields.unrepresentable ?? String(decoding: fields.lines, as: UTF8.self)
        }
        try expect(lines("/realm_access/roles"), equals: "X-Roles: buyer,eu\r\n")
        try expect(lines("/realm_access/roles/0"), equals: "")
        try expect(lines("/resource_access/a~1b"), equals: "/resource_access/a~1b")
        var limit = RateLimit(name: "a")
        limit.subject = .claim("/a/b")
        let key = try require(RateKey(session, at: limit))
        limit.subject = .claim("a.b")
        expect(RateKey(session, at: limit) != key)
        limit.subject = .claim("/a/c")
        expect(RateKey(session, at: limit), equals: nil)
        expect(limit.subject.description, equals: "claim:/a/c")
    }
}
