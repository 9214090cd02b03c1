import CloakroomCore
import TestSupport
import Testing

@Suite("The crash output of a process with a session")
struct CrashOutputTests {
    @Test("Rule 22: does not contain the session's contents")
    func crash() async throws {
        let result = await #expect(
            processExitsWith: .failure, observing: [\.standardErrorContent, \.standardOutputContent]
        ) {
            let start = SessionTime(seconds: 1_000)
            let session = Session(
                key: SessionKey(1, 2, 3, 4),
                user: UserProfile(
                    json: Array(#"{"name":"canary-name"}"#.utf8), account: AccountName(email: "canary@example.com")),
                tokens: TokenSet(
                    authorization: Secret("Bearer canary-access"), refreshToken: Secret("canary-refresh"),
                    obtainedAt: start.wallTime),
                createdAt: start, expiresAt: start, lastUsedAt: start)
            let credentials = try? Credentials(email: "canary@example.com", password: Secret("canary-password"))
            // Simulates the output of a programming error.
            fatalError(
                "\(session.tokens) \(session.user) \(String(describing: credentials)) \(String(reflecting: session))")
        }
        let output = try require(result)
        let text = String(decoding: output.standardErrorContent + output.standardOutputContent, as: UTF8.self)
        expect(text.contains("redacted"))
        expect(!text.contains("canary"))
    }
}
