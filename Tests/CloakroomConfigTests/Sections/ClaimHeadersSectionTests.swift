import CloakroomConfig
import CloakroomCore
import TestSupport
import Testing

@Suite("upstreams.NAME.claimHeaders")
struct ClaimHeadersSectionTests {
    /// A configuration with claim headers. Tests depend on its line numbers.
    private static let good = """
        \(ConfigFixture.head)
            apiToken: { value: demo }
            claimHeaders:
              X-User: sub
              X-Groups: { claim: groups, join: "," }
          other:
            targets: ["http://127.0.0.1:9001"]
            apiToken: { header: X-Key, value: demo }
        \(ConfigFixture.company)
            tokensFor: [api]
            keep: { claims: [groups, email] }
        accounts:
          publicURL: http://localhost:8080
        session:
          cookie: { secure: false }
        routes:
          - name: page
            methods: [GET]
            path: /
            upstream: api
            requiresAuthorization: true
            inject: [bearer]

        """

    @Test("A field has the name of a claim, or a section with the separator of a list")
    func values() throws {
        let configuration = try ConfigFixture(Self.good).load().configuration
        expect(
            configuration.upstreams[0].claimHeaders,
            equals: [
                ClaimHeader("X-User", claim: "sub"),
                ClaimHeader("X-Groups", claim: "groups", separator: UInt8(ascii: ",")),
            ])
        expect(configuration.upstreams[1].claimHeaders, equals: [])
        expect(configuration.claimHeaderNames, equals: ["X-User", "X-Groups"])
    }

    @Test("Flags and variables set fields too")
    func layers() throws {
        let loaded = try ConfigFixture(Self.good).load(
            environment: ["CLOAKROOM_UPSTREAMS_API_CLAIM_HEADERS_X_USER": "email"],
            overrides: [
                ("upstreams.other.claimHeaders.X-Mail", "email"), ("upstreams.api.claimHeaders.X-Groups.join", "|"),
                ("upstreams.other.claimHeaders.X-Roles.claim", "groups"),
                ("upstreams.other.claimHeaders.X-Roles.join", ";"),
            ]
        ).configuration
        expect(
            loaded.upstreams[0].claimHeaders,
            equals: [
                ClaimHeader("X-User", claim: "email"),
                ClaimHeader("X-Groups", claim: "groups", separator: UInt8(ascii: "|")),
            ])
        expect(
            loaded.upstreams[1].claimHeaders,
            equals: [
                ClaimHeader("X-Mail", claim: "email"),
                ClaimHeader("X-Roles", claim: "groups", separator: UInt8(ascii: ";")),
            ])
    }

    @Test(
        "Identity rule 22: a name that has another meaning is reported at its line",
        arguments: [
            "Authorization", "host", "Cookie", "Connection", "Transfer_Encoding", "Content-Type", "Proxy-User",
            "Sec-User", "X-Forwarded-For", "X-Request-Id", "x_client_cert_subject", "X-Real-IP",
        ])
    func otherMeaning(name: String) throws {
        try mistakes(piece: "X-User: sub", other: "\(name): sub", place: "8:", message: "has another meaning")
    }

    @Test(
        "Identity rule 22: a name that an upstream could confuse, and what is no claim, is reported at its line",
        arguments: [
            ("X-User: sub", "\"X User\": sub", "8:", "must be the name of a field"),
            ("X-User: sub", "\"X-User:\": sub", "8:", "must be the name of a field"),
            ("X-User: sub", "X_Groups: sub", "9:", "conflicts with X_Groups"),
            ("X-User: sub", "x-groups: sub", "9:", "conflicts with x-groups"),
            ("X-User: sub", "X-API-TOKEN: sub", "8:", "conflicts with X-API-TOKEN"),
            ("X-User: sub", "x_key: sub", "8:", "conflicts with X-Key"),
            ("X-User: sub", "X-User: name", "8:", "no identity keeps"),
            ("X-User: sub", "X-User: _claim_names", "8:", "are not fetched"),
            ("X-User: sub", "X-User: /_claim_sources/a", "8:", "are not fetched"),
            ("X-User: sub", "X-User: /groups/", "8:", "must be a JSON Pointer without empty names"),
            ("X-User: sub", "X-User: /groups~2", "8:", "with ~1 for / and ~0 for ~"),
            ("X-User: sub", "X-User: /realm_access/roles", "8:", "add /realm_access/roles to keep.claims"),
            ("X-User: sub", "X-User: [sub]", "8:", "must be"),
            ("X-User: sub", "X-User: ''", "8:", "must"),
            ("X-User: sub", "X-User:", "", "required key missing"),
            ("claim: groups, ", "", "", "required key missing"),
            ("join: \",\"", "join: \", \"", "9:", "one punctuation character"),
            ("join: \",\"", "join: a", "9:", "one punctuation character"),
            ("join: \",\"", "join: \"2\"", "9:", "one punctuation character"),
            ("join: \",\"", "join: \"%\"", "9:", "other than %"),
            ("join: \",\"", "join: \"é\"", "9:", "one punctuation character"),
            ("join: \",\"", "joint: \",\"", "9:", "unknown key"),
            ("inject: [bearer]", "passFields: [x_user]", "29:", "conflicts with a claim header"),
        ])
    func mistakes(piece: String, other: String, place: String, message: String) throws {
        try ConfigFixture.expectError(message, at: place, in: Self.good, replacing: piece, by: other)
    }

    @Test("An upstream has at most 32 claim headers")
    func count() throws {
        func errors(_ count: Int) throws -> [String] {
            let lines = (0..<count).map { "X-\($0): sub" }.joined(separator: "\n      ")
            return try ConfigFixture(Self.good.replacing("X-User: sub", with: lines)).valueErrors()
        }
        try expect(errors(31), equals: [])
        try expect(errors(32).contains { $0.contains("must be at most 32 fields, not 33") })
    }

    @Test("Without identities claim headers have no effect, which is a warning")
    func withoutIdentities() throws {
        let lines = Self.good.split(separator: "\n", omittingEmptySubsequences: false)
        let yaml = (lines[..<12] + lines[20...]).joined(separator: "\n").replacing(
            "inject: [bearer]", with: "inject: []"
        )
        .replacing("requiresAuthorization: true", with: "requiresAuthorization: false")
        let report = try ConfigFixture(yaml).report { .checkConfig($0) }
        expect(report.exitCode, equals: 0)
        expect(report.text.contains("has no effect without identities"), "\(report.text)")
    }

    @Test("explain shows the claim headers, and whose sessions a route accepts")
    func explained() throws {
        let text = try ConfigFixture(Self.good).report { CommandReport.explain($0, method: "GET", target: "/") }.text
        for piece in ["X-User: claim sub", "X-Groups: claim groups", "of company (its own token); others get 403"] {
            expect(text.contains(piece), "\(text)")
        }
    }
}
