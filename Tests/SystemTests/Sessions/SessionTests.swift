import MockAPI
import TestSupport
import Testing

/// Lifetimes and limits of sessions, tested through the running program.
@Suite("Sessions", .serialized, .timeLimit(.minutes(3)))
struct SessionTests {
    @Test(
        "An unused session ends as expired_idle, and GET /auth is no use; one in use ends as expired_absolute",
        arguments: [
            ("expired_idle", [], "/auth", "/videos/1"),
            ("expired_absolute", ["session.absoluteTimeout=2s"], "/videos/1", "/auth"),
        ] as [(String, [String], String, String)])
    func timeouts(reason: String, set: [String], polled: String, other: String) async throws {
        try await GatewayProcess.running(set: ["session.idleTimeout=2s"] + set) { gateway, mock in
            let client = gateway.client
            _ = try await client.signIn()
            // If `GET /auth` counted as use, this would take eight hours.
            let end = try await eventually("the session ends") {
                let response = try await client.get(polled)
                return response.status == 200 ? nil : response
            }
            if polled == "/auth" { expect(end.values(of: "Set-Cookie"), equals: []) }
            let requests = mock.observations.snapshot().count("GET", "/videos/1")
            for response in [end, try await client.get(other)] {
                expect(response.status, equals: 401)
                expect(response.problem?.reason, equals: reason)
            }
            expect(mock.observations.snapshot().count("GET", "/videos/1"), equals: requests)
        }
    }

    @Test("Rule 101: hosts of a domain share the cookie, over HTTP/1.1 and HTTP/2, and the start warns once")
    func domain() async throws {
        let set = [
            "listeners.0.behindTLSProxy=true", "listeners.0.http2=true", "session.cookie.secure=true",
            "session.cookie.name=__Secure-cloakroom", "session.cookie.domain=example.com",
        ]
        let attributes = "; Path=/; Domain=example.com; HttpOnly; Secure; SameSite=Strict"
        try await GatewayProcess.running(set: set) { gateway, _ in
            let (curl, auth, video) = (try Curl(), gateway.clear + "/auth", gateway.clear + "/videos/1")
            for version in ["--http1.1", "--http2-prior-knowledge"] {
                let signedIn = try await curl(version, "-u", "jo@example.com:secret", "-X", "POST", auth)
                let ticket = try require(signedIn.cookie)
                expect(signedIn.values(of: "Set-Cookie"), equals: ["__Secure-cloakroom=\(ticket)\(attributes)"])
                let own = "Cookie: __Secure-cloakroom=\(ticket)"
                let planted = "Cookie: __Secure-cloakroom=\(String(repeating: "A", count: 43))"
                let two = try await curl(version, "-H", own, "-H", planted, video)
                expect(two.problem?.reason, equals: "no_session")
                try await expect(curl(version, "-H", own, video).status, equals: 200)
                let signedOut = try await curl(version, "-H", own, "-X", "DELETE", auth)
                expect(signedOut.values(of: "Set-Cookie"), equals: ["__Secure-cloakroom=\(attributes); Max-Age=0"])
            }
            let isWarning = { (line: Substring) in line.contains("every host below example.com") }
            _ = try await gateway.program.waits(for: "the warning") { $0.lines.first(where: isWarning) }
            expect(gateway.program.lines.count(where: isWarning), equals: 1)
        }
    }
}
