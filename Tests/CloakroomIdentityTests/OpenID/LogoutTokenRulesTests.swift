import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

/// Rule 20 of the design of identities.
@Suite("Claims of logout tokens")
struct LogoutTokenRulesTests {
    private static let provider = ProviderIdentity(
        issuer: "https://id.example.com", clientID: "cloakroom", clockSkew: .seconds(30))
    private static let event = #"{"http://schemas.openid.net/event/backchannel-logout":{}}"#
    private static let valid = ScriptedClaims(members: [
        ("iss", #""https://id.example.com""#), ("aud", #"["cloakroom"]"#), ("iat", "1800000000"),
        ("jti", #""t-1""#), ("events", event), ("sid", #""s-1""#), ("sub", #""jo""#),
    ])

    private let rules = LogoutTokenRules(provider: Self.provider)
    private let now = WallTime(seconds: 1_800_000_010)

    private func check(_ claims: ScriptedClaims, _ type: TokenType = .logout) throws -> LogoutToken {
        try rules.check(try claims.token(type), now: now)
    }

    @Test("A valid token names the sessions that it ends")
    func valid() throws {
        let token = try check(Self.valid)
        expect((token.session, token.subject) == ("s-1", "jo"))
        expect(token.id, equals: "t-1")
        expect(token.issuer, equals: "https://id.example.com")
        expect(token.issuedAt, equals: WallTime(seconds: 1_800_000_000))
        let ofSession = try check(Self.valid.with("sub", nil))
        expect((ofSession.session, ofSession.subject) == ("s-1", nil))
        let ofSubject = try check(Self.valid.with("sid", nil))
        expect((ofSubject.session, ofSubject.subject) == (nil, "jo"))
    }

    /// A claim, its value, and the rejection; `nil` for a permitted value.
    typealias Row = (claim: String, value: String?, expected: TokenRejection?)

    private static let table: [Row] = [
        ("iss", nil, .wrongIssuer), ("iss", #""https://id.example.org""#, .wrongIssuer),
        ("aud", nil, .wrongAudience), ("aud", "[]", .wrongAudience), ("aud", #""other""#, .wrongAudience),
        ("aud", #"["cloakroom","other"]"#, .otherAudience), ("azp", #""other""#, .wrongAuthorizedParty),
        ("iat", nil, .invalidIssuedAt), ("iat", #""1800000000""#, .invalidIssuedAt),
        ("iat", "1799999889", .issuedTooEarly), ("iat", "1799999890", nil), ("iat", "1800000040", nil),
        ("iat", "1800000041", .issuedInFuture), ("iat", "1800086400", .issuedInFuture),
        ("exp", nil, nil), ("exp", "1799999981", nil), ("exp", "1799999980", .expired), ("exp", "0", .expired),
        ("exp", #""never""#, .invalidExpiry), ("nbf", "1800000041", .notYetValid),
        ("events", nil, .invalidEvents), ("events", "null", .invalidEvents), ("events", "{}", .invalidEvents),
        ("events", #"{"other":{}}"#, .invalidEvents),
        ("events", #"["http://schemas.openid.net/event/backchannel-logout"]"#, .invalidEvents),
        ("events", #"{"http://schemas.openid.net/event/backchannel-logout":true}"#, .invalidEvents),
        ("events", #"{"http://schemas.openid.net/event/backchannel-logout":null}"#, .invalidEvents),
        ("events", #"{"http://schemas.openid.net/event/backchannel-Logout":{}}"#, .invalidEvents),
        ("events", #"{"http://schemas.openid.net/event/backchannel-logout":{"a":1},"b":{}}"#, nil),
        ("nonce", #""n-1""#, .nonceInLogoutToken), ("nonce", "null", .nonceInLogoutToken),
        ("nonce", #""""#, .nonceInLogoutToken),
        ("jti", nil, .invalidTokenID), ("jti", #""""#, .invalidTokenID), ("jti", "1", .invalidTokenID),
        ("jti", "\"\(String(repeating: "j", count: 1_025))\"", .invalidTokenID),
        ("sid", "1", .invalidSessionID), ("sid", #""""#, .invalidSessionID), ("sid", "null", nil),
        ("sub", #""""#, .invalidSubject), ("sub", #""jö""#, .invalidSubject), ("sub", "null", nil),
    ]

    @Test("Identity rule 20: every claim of a logout token has its refusal", arguments: table)
    func logoutTokenTable(row: Row) {
        expect(rejection(try check(Self.valid.with(row.claim, row.value))), equals: row.expected)
    }

    @Test("Identity rule 20: a token without sub and sid ends nothing")
    func noTarget() {
        expect(rejection(try check(Self.valid.with("sid", nil).with("sub", nil))), equals: .noSubjectOrSession)
        expect(rejection(try check(Self.valid.with("sid", "null").with("sub", "null"))), equals: .noSubjectOrSession)
    }

    @Test("Identity rule 20: the type is none, JWT or logout+jwt")
    func types() {
        for type in TokenType.allCases {
            let isPermitted = [.unspecified, .jwt, .logout].contains(type)
            expect(rejection(try check(Self.valid, type)), equals: (isPermitted ? nil : .wrongType))
        }
    }

    @Test("Identity rule 20: no ID token passes as a logout token, and no logout token as an ID token")
    func kindsOfTokensDoNotMix() throws {
        let idToken = Self.valid.with("events", nil).with("nonce", #""n""#).with("exp", "1800000300")
        let idRules = IDTokenRules(provider: Self.provider)
        let signIn = IDTokenRules.SignIn(
            nonce: Secret("n"), startedAt: now, requiresAuthenticationTime: false, accessToken: Secret("a"))
        let refresh = IDTokenRules.Refresh(
            subject: "jo", authenticatedAt: nil, nonceHash: nil, accessToken: Secret("a"))
        expect(rejection(try idRules.check(try idToken.token(), of: signIn, now: now)), equals: nil)
        expect(rejection(try check(idToken, .jwt)), equals: .invalidEvents)
        expect(rejection(try check(idToken.with("nonce", nil), .jwt)), equals: .invalidEvents)
        let logout = Self.valid.with("exp", "1800000300")
        expect(rejection(try check(logout)), equals: nil)
        expect(rejection(try idRules.check(try logout.token(.jwt), of: signIn, now: now)), equals: .wrongType)
        expect(rejection(try idRules.check(try logout.token(.jwt), of: refresh, now: now)), equals: .wrongType)
    }

    @Test("A mark of a token lasts until the token is too old")
    func replay() throws {
        let end = try check(Self.valid).replayableUntil
        expect(rejection(try rules.check(try Self.valid.token(), now: end - .milliseconds(1_000))), equals: nil)
        expect(
            rejection(try rules.check(try Self.valid.token(), now: end - .milliseconds(999))), equals: .issuedTooEarly)
        expect(rejection(try rules.check(try Self.valid.token(), now: end)), equals: .issuedTooEarly)
    }
}
