import CloakroomCore
import Testing

@Suite("A session")
struct SessionTests {
    private let start = Timestamp(seconds: 1_000)

    private func session() -> Session {
        Session(
            key: SessionKey(1, 2, 3, 4),
            user: UserProfile(json: Array(#"{"email":"canary@example.com"}"#.utf8), accountHash: 7),
            tokens: SessionTokens(
                authorization: Secret("Bearer canary-access"), refreshToken: Secret("canary-refresh")),
            createdAt: start, expiresAt: start + .seconds(3_600), lastUsedAt: start, logHash: 9)
    }

    @Test("notes a use once in its granularity")
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

    @Test("Rule 22: shows neither tokens nor who it is of")
    func redacted() {
        let session = session()
        var dumped = ""
        dump(session, to: &dumped)
        let personal = "\(Array("canary@example.com".utf8))".dropFirst().dropLast()
        for text in [dumped, String(reflecting: session.tokens), "\(session.user)", String(reflecting: session.user)] {
            #expect(!text.contains("canary"))
            #expect(!text.contains(personal))
        }
    }
}
