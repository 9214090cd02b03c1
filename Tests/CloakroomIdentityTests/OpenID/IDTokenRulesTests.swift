import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

/// Claims of a token as text, so that a test can give each of them any value.
struct ScriptedClaims {
    var members: [(name: String, value: String)]

    /// The claims with one replaced or added; `nil` removes it.
    func with(_ name: String, _ value: String?) -> ScriptedClaims {
        var result = self
        result.members.removeAll { $0.name == name }
        if let value { result.members.append((name, value)) }
        return result
    }

    var payload: [UInt8] {
        Array(("{" + members.map { "\"\($0.name)\":\($0.value)" }.joined(separator: ",") + "}").utf8)
    }

    func token(_ type: TokenType = .jwt, algorithm: SignatureAlgorithm = .es256) throws -> VerifiedToken {
        try VerifiedToken(unverified: payload, algorithm: algorithm, type: type)
    }
}

/// Rules 16 and 17 of the design of identities.
@Suite("Claims of ID tokens")
struct IDTokenRulesTests {
    private static let start: Int64 = 1_800_000_000
    private static let provider = ProviderIdentity(
        issuer: "https://id.example.com", clientID: "cloakroom", clockSkew: .seconds(30))
    private static let accessToken = Secret("jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y")
    private static let valid = ScriptedClaims(members: [
        ("iss", #""https://id.example.com""#), ("aud", #""cloakroom""#), ("sub", #""jo""#),
        ("exp", "1800000310"), ("iat", "1800000010"), ("nonce", #""n-1""#),
    ])

    private let rules = IDTokenRules(provider: Self.provider)
    /// Ten seconds after the start of the sign-in.
    private let now = WallTime(seconds: Self.start + 10)

    private func signIn(
        startedAt: WallTime = WallTime(seconds: Self.start), requiresAuthenticationTime: Bool = false
    ) -> IDTokenRules.SignIn {
        IDTokenRules.SignIn(
            nonce: Secret("n-1"), startedAt: startedAt,
            requiresAuthenticationTime: requiresAuthenticationTime, accessToken: Self.accessToken)
    }

    private func check(_ claims: ScriptedClaims, maxAge: Bool = false) throws -> IDToken {
        try rules.check(try claims.token(), of: signIn(requiresAuthenticationTime: maxAge), now: now)
    }

    @Test("A valid token yields its claims")
    func valid() throws {
        let claims = Self.valid.with("sid", #""s-1""#).with("auth_time", "1800000005.25").with("acr", #""mfa""#)
        let token = try check(claims.with("azp", #""cloakroom""#).with("at_hash", #""77QmUPtjPfzWtF2AnpK9RQ""#))
        expect(token.issuer, equals: "https://id.example.com")
        expect(token.subject, equals: "jo")
        expect(token.sessionID, equals: "s-1")
        expect(token.authenticatedAt, equals: WallTime(milliseconds: 1_800_000_005_250))
        expect(token.contextClass, equals: "mfa")
        expect(token.expiresAt, equals: WallTime(seconds: Self.start + 310))
        expect(token.nonceHash, equals: IDTokenRules.hash(Array("n-1".utf8)))
        expect(token.claims["acr"], equals: .string("mfa"))
    }

    /// A claim, its value, and the rejection; `nil` for a permitted value.
    typealias Row = (claim: String, value: String?, expected: TokenRejection?)

    private static let table: [Row] = [
        ("iss", nil, .wrongIssuer), ("iss", #""https://id.example.com/""#, .wrongIssuer),
        ("iss", #""HTTPS://id.example.com""#, .wrongIssuer), ("iss", #"["https://id.example.com"]"#, .wrongIssuer),
        ("iss", "1", .wrongIssuer), ("iss", "null", .wrongIssuer),
        ("aud", nil, .wrongAudience), ("aud", "null", .wrongAudience), ("aud", "[]", .wrongAudience),
        ("aud", #""Cloakroom""#, .wrongAudience), ("aud", #"["other"]"#, .wrongAudience), ("aud", "1", .wrongAudience),
        ("aud", "{}", .wrongAudience), ("aud", #"["cloakroom",1]"#, .wrongAudience),
        ("aud", #"[["cloakroom"]]"#, .wrongAudience), ("aud", #"["cloakroom","other"]"#, .otherAudience),
        ("aud", #"["cloakroom"]"#, nil), ("aud", #"["cloakroom","cloakroom"]"#, nil),
        ("azp", #""other""#, .wrongAuthorizedParty), ("azp", "[]", .wrongAuthorizedParty),
        ("azp", #"["cloakroom"]"#, .wrongAuthorizedParty),
        ("azp", "1", .wrongAuthorizedParty), ("azp", "null", nil), ("azp", #""cloakroom""#, nil),
        ("exp", nil, .invalidExpiry), ("exp", #""1800000310""#, .invalidExpiry), ("exp", "-1", .invalidExpiry),
        ("exp", "1e400", .invalidExpiry), ("exp", "1e30", .invalidExpiry), ("exp", "[]", .invalidExpiry),
        ("exp", "0", .expired), ("exp", "1799999980", .expired), ("exp", "1799999980.001", nil),
        ("iat", nil, .invalidIssuedAt), ("iat", #""1800000010""#, .invalidIssuedAt), ("iat", "1e300", .invalidIssuedAt),
        ("iat", "1799999969", .issuedTooEarly), ("iat", "1799999970", nil), ("iat", "1800000040", nil),
        ("iat", "1800000041", .issuedInFuture), ("iat", "0", .issuedTooEarly),
        ("nbf", "1800000040", nil), ("nbf", "1800000041", .notYetValid), ("nbf", #""now""#, .invalidNotBefore),
        ("nbf", "null", nil),
        ("nonce", nil, .wrongNonce), ("nonce", #""n-2""#, .wrongNonce), ("nonce", #""n-1 ""#, .wrongNonce),
        ("nonce", #"["n-1"]"#, .wrongNonce), ("nonce", #""""#, .wrongNonce), ("nonce", "null", .wrongNonce),
        ("at_hash", #""77QmUPtjPfzWtF2AnpK9RQ""#, nil),
        ("at_hash", #""77QmUPtjPfzWtF2AnpK9RR""#, .wrongAccessTokenHash),
        ("at_hash", #""""#, .wrongAccessTokenHash), ("at_hash", "1", .wrongAccessTokenHash), ("at_hash", "null", nil),
        ("at_hash", "[]", .wrongAccessTokenHash),
        ("sub", nil, .invalidSubject), ("sub", #""""#, .invalidSubject), ("sub", "1", .invalidSubject),
        ("sub", #""jö""#, .invalidSubject), ("sub", #""a b""#, .invalidSubject),
        ("sub", #""a\u0000""#, .invalidSubject), ("sub", #""\u00e9""#, .invalidSubject),
        ("sub", #""a\r\nb""#, .invalidSubject), ("sub", "\"\(String(repeating: "s", count: 255))\"", nil),
        ("sub", "\"\(String(repeating: "s", count: 256))\"", .invalidSubject),
        ("auth_time", #""1800000005""#, .invalidAuthenticationTime), ("auth_time", "-1", .invalidAuthenticationTime),
        ("auth_time", "1800000041", .invalidAuthenticationTime), ("auth_time", "1e999", .invalidAuthenticationTime),
        ("auth_time", "1800000005", nil), ("auth_time", "1795293584.00976", nil), ("auth_time", "0", nil),
        ("sid", #""""#, .invalidSessionID), ("sid", "1", .invalidSessionID),
        ("sid", "\"\(String(repeating: "s", count: 1_024))\"", nil),
        ("sid", "\"\(String(repeating: "s", count: 1_025))\"", .invalidSessionID),
        ("acr", #"["a"]"#, .invalidContextClass), ("acr", "0", .invalidContextClass), ("acr", "null", nil),
    ]

    @Test("Identity rule 16: every claim has its refusal", arguments: table)
    func everyClaimHasItsRefusal(row: Row) {
        expect(rejection(try check(Self.valid.with(row.claim, row.value))), equals: row.expected)
    }

    @Test("Identity rule 16: without tolerance for clocks, an iat that is rounded down to seconds is valid")
    func roundedTime() {
        let rules = IDTokenRules(
            provider: ProviderIdentity(issuer: "https://id.example.com", clientID: "cloakroom", clockSkew: .zero))
        func result(_ second: Int64, startedAt milliseconds: Int64) -> TokenRejection? {
            let start = WallTime(milliseconds: milliseconds)
            let claims = Self.valid.with("iat", "\(second)").with("auth_time", nil)
            return rejection(
                try rules.check(try claims.token(), of: signIn(startedAt: start), now: start + .milliseconds(1)))
        }
        expect(result(1_800_000_000, startedAt: 1_800_000_000_998), equals: nil)
        expect(result(1_800_000_000, startedAt: 1_800_000_000_000), equals: nil)
        expect(result(1_799_999_999, startedAt: 1_800_000_000_000), equals: .issuedTooEarly)
    }

    @Test("Identity rule 16: several audiences are accepted only if the gateway is the authorized party")
    func authorizedParty() {
        let several = Self.valid.with("aud", #"["other","cloakroom"]"#)
        expect(rejection(try check(several)), equals: .otherAudience)
        expect(rejection(try check(several.with("azp", #""cloakroom""#))), equals: nil)
        expect(rejection(try check(several.with("azp", #""other""#))), equals: .wrongAuthorizedParty)
        expect(
            rejection(try check(Self.valid.with("aud", #"["other"]"#).with("azp", #""cloakroom""#))),
            equals: .wrongAudience)
    }

    @Test("Identity rule 16: names are compared byte by byte and not as text")
    func unicodeNames() {
        let provider = ProviderIdentity(issuer: "https://caf\u{e9}.example", clientID: "K", clockSkew: .zero)
        let rules = IDTokenRules(provider: provider)
        let claims = Self.valid.with("iss", "\"https://caf\u{e9}.example\"").with("aud", #""K""#)
        func check(_ claims: ScriptedClaims) throws -> IDToken {
            try rules.check(try claims.token(), of: signIn(), now: now)
        }
        expect(rejection(try check(claims)), equals: nil)
        expect(rejection(try check(claims.with("iss", "\"https://cafe\u{301}.example\""))), equals: .wrongIssuer)
        expect(rejection(try check(claims.with("aud", "\"\u{212a}\""))), equals: .wrongAudience)
    }

    @Test("Identity rule 16: auth_time is required where max_age was requested, and 0 is no time")
    func authenticationTimeIsRequired() {
        for value in [nil, "null", "0", "0.0"] {
            expect(
                rejection(try check(Self.valid.with("auth_time", value), maxAge: true)),
                equals: .missingAuthenticationTime)
        }
        expect(rejection(try check(Self.valid.with("auth_time", "1800000000"), maxAge: true)), equals: nil)
    }

    @Test("Identity rule 16: at_hash uses the hash function of the signature, and is not compared for EdDSA")
    func accessTokenHash() throws {
        for algorithm in SignatureAlgorithm.allCases {
            func rejected(_ hash: String) -> TokenRejection? {
                rejection(
                    try rules.check(
                        try Self.valid.with("at_hash", "\"\(hash)\"").token(algorithm: algorithm), of: signIn(),
                        now: now))
            }
            guard let hash = algorithm.accessTokenHash(Self.accessToken.bytes) else {
                expect(algorithm, equals: .edDSA)
                expect(rejected("anything"), equals: nil)
                continue
            }
            let digits = algorithm.rawValue.suffix(3)
            expect(Base64URL.decode(hash.utf8)?.count, equals: (digits == "256" ? 16 : digits == "384" ? 24 : 32))
            expect(rejected(hash), equals: nil)
            expect(rejected(String(hash.dropLast())), equals: .wrongAccessTokenHash)
        }
        expect(SignatureAlgorithm.rs512.accessTokenHash([]) != SignatureAlgorithm.rs256.accessTokenHash([]))
    }

    @Test("Identity rule 16: only a token of type JWT or without a type is an ID token")
    func types() throws {
        for (type, expected) in [
            (TokenType.jwt, nil), (.unspecified, nil), (.logout, TokenRejection.wrongType), (.other, .wrongType),
            (.accessToken, .wrongType),
        ] {
            expect(rejection(try rules.check(try Self.valid.token(type), of: signIn(), now: now)), equals: expected)
        }
    }

    // MARK: - Refresh

    private func refreshed(
        _ claims: ScriptedClaims, subject: String = "jo", at time: WallTime? = nil,
        nonceHash: [UInt8]? = IDTokenRules.hash(Array("n-1".utf8))
    ) throws -> IDToken {
        try rules.check(
            try claims.token(),
            of: IDTokenRules.Refresh(
                subject: subject, authenticatedAt: time, nonceHash: nonceHash, accessToken: Self.accessToken), now: now)
    }

    @Test("Identity rule 17: a refresh may not change the user, whatever the spelling")
    func subMayNotChange() {
        expect(rejection(try refreshed(Self.valid)), equals: nil)
        for other in ["Jo", "jo2", "j"] {
            expect(rejection(try refreshed(Self.valid, subject: other)), equals: .otherSubject)
        }
        expect(rejection(try refreshed(Self.valid.with("sub", nil))), equals: .invalidSubject)
    }

    @Test("Identity rule 17: a refresh has the same issuer, audience, nonce and auth_time")
    func refreshBelongsToTheSession() {
        let time = WallTime(seconds: Self.start)
        expect(rejection(try refreshed(Self.valid.with("iss", #""https://other.example""#))), equals: .wrongIssuer)
        expect(rejection(try refreshed(Self.valid.with("aud", #""other""#))), equals: .wrongAudience)
        expect(rejection(try refreshed(Self.valid.with("nonce", nil))), equals: nil)
        expect(rejection(try refreshed(Self.valid.with("nonce", #""n-2""#))), equals: .wrongNonce)
        expect(rejection(try refreshed(Self.valid, nonceHash: nil)), equals: .wrongNonce)
        expect(rejection(try refreshed(Self.valid.with("auth_time", "1800000000"), at: time)), equals: nil)
        expect(rejection(try refreshed(Self.valid, at: time)), equals: nil)
        expect(
            rejection(try refreshed(Self.valid.with("auth_time", "1800000001"), at: time)),
            equals: .otherAuthenticationTime)
        expect(rejection(try refreshed(Self.valid.with("at_hash", #""AAAA""#))), equals: .wrongAccessTokenHash)
        expect(rejection(try refreshed(Self.valid.with("exp", "1799999000"))), equals: .expired)
    }

    @Test("Identity rule 17: a session can be refreshed long after its sign-in")
    func lateRefresh() {
        expect(rejection(try refreshed(Self.valid.with("iat", "1700000000"))), equals: nil)
        expect(rejection(try refreshed(Self.valid.with("iat", "1800000041"))), equals: .issuedInFuture)
    }
}
