import CloakroomCore
import Testing

@Suite("A session")
struct SessionTests {
    private let start = Timestamp(seconds: 1_000)

    private func session() -> Session {
        Session(
            key: SessionKey(1, 2, 3, 4),
            user: UserProfile(
                json: Array(#"{"email":"canary@example.com"}"#.utf8), account: AccountName(email: "canary@example.com")),
            tokens: TokenSet(
                authorization: Secret("Bearer canary-access"), refreshToken: Secret("canary-refresh"),
                accessTokenExpiresAt: start + .seconds(60), obtainedAt: start),
            client: SessionClientInfo(peer: "192.0.2.1", userAgent: .firefox), createdAt: start,
            expiresAt: start + .seconds(3_600), lastUsedAt: start)
    }

    @Test("records at most one use per granularity interval")
    func touch() {
        let session = session()
        #expect(!session.touch(at: start + .seconds(59), granularity: .seconds(60)))
        #expect(session.lastUsedAt == start)
        #expect(session.touch(at: start + .seconds(60), granularity: .seconds(60)))
        #expect(session.lastUsedAt == start + .seconds(60))
        #expect(!session.touch(at: start + .seconds(61), granularity: .seconds(60)))
    }

    @Test("never moves its last use backwards")
    func touchBackwards() {
        let session = session()
        #expect(!session.touch(at: start - .seconds(600), granularity: .zero))
        #expect(session.lastUsedAt == start)
    }

    @Test("Rule 22: prints neither its tokens nor its user")
    func redacted() {
        let session = session()
        var dumped = ""
        dump(session, to: &dumped)
        let personal = ["canary@example.com", "canary-access", "canary-refresh"].map {
            "\(Array($0.utf8))".dropFirst().dropLast()
        }
        for text in [dumped, String(reflecting: session.tokens), "\(session.user)", String(reflecting: session.user)] {
            #expect(!text.contains("canary"))
            for bytes in personal { #expect(!text.contains(bytes)) }
        }
    }

    @Test("returns all values that it was created with")
    func wholeness() {
        let session = session()
        #expect(session.user.json == Array(#"{"email":"canary@example.com"}"#.utf8))
        #expect(session.user.account == AccountName(email: "canary@example.com"))
        #expect(session.tokens.refreshToken == Secret("canary-refresh"))
        #expect(session.tokens.accessTokenExpiresAt == start + .seconds(60))
        #expect(session.client == SessionClientInfo(peer: "192.0.2.1", userAgent: .firefox))
        #expect(session.isRefreshable)
        #expect(session.id == SessionID(1))
    }

    @Test("that is refreshed has the next version and the new contents")
    func refreshed() {
        let old = session()
        let tokens = TokenSet(authorization: Secret("Bearer next"), obtainedAt: start + .seconds(9))
        let new = old.refreshed(with: SessionUpdate(tokens: tokens))
        #expect(new.version == old.version + 1)
        #expect(new.tokens == tokens)
        #expect(!new.isRefreshable)
        #expect(new.user == old.user)
        #expect(new.client == old.client)
        #expect(new.expiresAt == old.expiresAt)
        let other = new.refreshed(with: SessionUpdate(userJSON: Array("{}".utf8)))
        #expect(other.user.json == Array("{}".utf8))
        #expect(other.tokens == tokens)
    }
}
