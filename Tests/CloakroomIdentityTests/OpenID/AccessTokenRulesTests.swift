import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("Claims of access tokens")
struct AccessTokenRulesTests {
    private static let provider = ProviderIdentity(
        issuer: "https://id.example.com", clientID: "cloakroom", clockSkew: .seconds(30))
    private static let valid = ScriptedClaims(members: [
        ("iss", #""https://id.example.com""#), ("aud", #""https://api.example.com""#), ("sub", #""jo""#),
        ("client_id", #""batch""#), ("iat", "1800000000"), ("exp", "1800000300"), ("jti", #""t-1""#),
        ("scope", #""read write""#), ("groups", #"["staff"]"#), ("internal", #""x""#),
    ])
    private static let now = WallTime(seconds: 1_800_000_000)
    private static let key = SessionKey(1, 2, 3, 4)

    private static func session(
        _ claims: ScriptedClaims = valid, _ type: TokenType = .accessToken,
        change: (inout IdentityConfiguration.AccessTokens) -> Void = { _ in }
    ) throws -> Session {
        var permitted = IdentityConfiguration.AccessTokens()
        permitted.audience = ["https://api.example.com", "orders"]
        change(&permitted)
        var configuration = IdentityConfiguration(
            name: "company", issuer: provider.issuer,
            client: IdentityClientConfiguration(id: "cloakroom", authentication: .basic(Secret("s"))))
        configuration.accessTokens = permitted
        let clients = [
            ("https://id.example.org", "batch"), (provider.issuer, "cloakroom"), (provider.issuer, "second"),
        ]
        let rules = AccessTokenRules(
            provider: provider,
            clients: clients.map { ProviderIdentity(issuer: $0.0, clientID: $0.1, clockSkew: .zero) },
            configuration: configuration)
        return try rules.session(try claims.token(type), Secret("a.b.c"), key: key, now: now)
    }

    @Test("A valid token becomes a session with its claims, which ends with it and is never refreshed")
    func valid() throws {
        let session = try Self.session(Self.valid.with("auth_time", "1799999000").with("acr", #""mfa""#))
        expect(session.authorization, equals: Secret("Bearer a.b.c"))
        expect(session.key, equals: Self.key)
        expect(session.expiresAt, equals: SessionTime(seconds: 1_800_000_330))
        expect(session.update.urgency(at: Self.now + .seconds(86_400)) == .none && !session.isRefreshable)
        let claims = try require(session.claims)
        expect(claims.values[claim: "scope"], equals: .array([.string("read"), .string("write")]))
        expect(claims.values[claim: "groups"], equals: .array([.string("staff")]))
        expect(claims.values[claim: "sub"], equals: .string("jo"))
        expect(claims.values[claim: "internal"], equals: nil)
        expect(claims.acr == "mfa" && claims.authenticatedAt == WallTime(seconds: 1_799_999_000))
        expect(session.source, equals: SessionSource(identity: "company", issuer: "https://id.example.com"))
    }

    @Test("A claim costs linear time, also a text that is slow to normalize")
    func linear() {
        let claims: [(String, TokenType)] = [("scope", .accessToken), ("typ", .jwt), ("token_type", .accessToken)]
        for (name, type) in claims {
            let ratio = LinearTime.ratio(ofMarks: {
                _ = try? Self.session(Self.valid.with(name, "\"\($0)\""), type) { $0.types = [.accessToken, .jwt] }
            })
            #expect(ratio < 4, "\(name): \(ratio)")
        }
    }

    /// A claim, its value, and the rejection; `nil` for a permitted value.
    typealias Row = (claim: String, value: String?, expected: TokenRejection?)

    private static let table: [Row] = [
        ("iss", nil, .wrongIssuer), ("iss", #""https://id.example.org""#, .wrongIssuer),
        ("iss", #""https://id.example.com/""#, .wrongIssuer),
        ("aud", nil, .wrongAudience), ("aud", "[]", .wrongAudience), ("aud", #""other""#, .wrongAudience),
        ("aud", #""https://api.example.com/v1""#, .wrongAudience), ("aud", #""https://api.example""#, .wrongAudience),
        ("aud", #""cloakroom""#, .wrongAudience), ("aud", #"["orders",1]"#, .wrongAudience),
        ("aud", #"["other","orders"]"#, nil),
        ("exp", nil, .invalidExpiry), ("exp", #""1800000300""#, .invalidExpiry), ("exp", "1799999970", .expired),
        ("exp", "1799999971", nil), ("exp", "1800003630", nil), ("exp", "1800003631", .expiresTooLate),
        ("exp", "2115600000", .expiresTooLate),
        ("iat", nil, .invalidIssuedAt), ("iat", "1800000030", nil), ("iat", "1800000031", .issuedInFuture),
        ("nbf", "1800000030", nil), ("nbf", "1800000031", .notYetValid),
        ("sub", nil, .invalidSubject), ("sub", "1", .invalidSubject),
        ("client_id", nil, .otherClient), ("client_id", "1", .otherClient), ("azp", #""batch""#, nil),
        ("cnf", #"{"jkt":"x"}"#, .senderConstrained), ("cnf", "null", .senderConstrained),
        ("scope", nil, nil), ("scope", #"["read"]"#, nil), ("scope", "1", .invalidScope),
        ("scope", "[1]", .invalidScope), ("acr", "1", .invalidContextClass),
        ("auth_time", #""now""#, .invalidAuthenticationTime),
    ]

    @Test("Identity rule 40: every claim of an access token has its rejection", arguments: table)
    func everyClaimHasItsRejection(row: Row) {
        expect(rejection(try Self.session(Self.valid.with(row.claim, row.value))), equals: row.expected)
    }

    @Test("Identity rule 40: only tokens of the permitted clients, by either claim")
    func clients() {
        func rejected(_ claims: ScriptedClaims) -> TokenRejection? {
            rejection(try Self.session(claims) { $0.clients = ["batch", "mobile"] })
        }
        expect(rejected(Self.valid), equals: nil)
        expect(rejected(Self.valid.with("client_id", nil).with("azp", #""mobile""#)), equals: nil)
        expect(rejected(Self.valid.with("client_id", #""Batch""#)), equals: .otherClient)
        expect(rejected(Self.valid.with("azp", #""web""#)), equals: .otherClient)
    }

    @Test("Identity rule 40: an audience and a client are compared byte by byte")
    func bytes() {
        func rejected(_ name: String) -> TokenRejection? {
            let claims = Self.valid.with("aud", "\"\(name)\"").with("client_id", "\"\(name)\"")
            return rejection(
                try Self.session(claims) { ($0.audience, $0.clients) = (["caf\u{e9}", "cafe\u{301}"], ["caf\u{e9}"]) })
        }
        expect(rejected("caf\u{e9}"), equals: nil)
        expect(rejected("cafe\u{301}"), equals: .otherClient)
        let claims = Self.valid.with("aud", "\"cafe\u{301}\"")
        expect(rejection(try Self.session(claims) { $0.audience = ["caf\u{e9}"] }), equals: .wrongAudience)
    }

    @Test("A scope is limited by the length of the token only")
    func longScope() throws {
        let scope = repeatElement("a", count: 3_000).joined(separator: " ")
        let claims = try require(Self.session(Self.valid.with("scope", "\"\(scope)\"")).claims)
        expect(claims.values[claim: "scope"], equals: .array(Array(repeating: .string("a"), count: 3_000)))
    }

    @Test("Identity rule 42: a token of any client of the gateway at the issuer is its own, whatever its audience is")
    func ownToken() {
        for claim in ["client_id", "azp"] {
            for (client, audience) in [("cloakroom", "orders"), ("cloakroom", "other"), ("second", "orders")] {
                let claims = Self.valid.with(claim, "\"\(client)\"").with("aud", "\"\(audience)\"")
                expect(rejection(try Self.session(claims)), equals: .ownToken)
            }
        }
    }

    @Test("Identity rule 41: the type is that of access tokens, or JWT where it is permitted")
    func types() {
        for type in [TokenType.unspecified, .jwt, .logout, .other] {
            expect(rejection(try Self.session(Self.valid, type)), equals: .wrongType)
        }
        for type in [TokenType.unspecified, .logout, .other, .accessToken] {
            expect(rejection(try Self.session(Self.valid, type) { $0.types = [.jwt] }), equals: .wrongType)
        }
        // The claim is Keycloak's.
        let claims = Self.valid.with("typ", #""Bearer""#)
        expect(rejection(try Self.session(claims, .jwt) { $0.types = [.accessToken, .jwt] }), equals: nil)
    }

    @Test(
        "Identity rule 41: with the type JWT, no ID, logout or refresh token passes",
        arguments: [
            ("nonce", #""n""#), ("at_hash", #""h""#), ("c_hash", #""h""#), ("events", "{}"), ("typ", #""ID""#),
            ("typ", #""Refresh""#), ("typ", #""Logout""#), ("nonce", "null"),
        ])
    func idTokenIsNoAccessToken(claim: String, value: String) {
        let claims = Self.valid.with(claim, value)
        expect(rejection(try Self.session(claims, .jwt) { $0.types = [.jwt] }), equals: .wrongType)
    }
}
