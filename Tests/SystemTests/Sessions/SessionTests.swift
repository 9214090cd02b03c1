import MockAPI
import TestSupport
import Testing

/// Lifetimes and limits of sessions, tested through the running program.
@Suite("Sessions", .serialized, .timeLimit(.minutes(3)))
struct SessionTests {
    @Test("GET /auth returns the user and the session's times, and 401 without a session")
    func whoAmI() async throws {
        try await GatewayProcess.running { gateway, mock in
            let client = gateway.client
            let nobody = try await client.get("/auth")
            #expect(nobody.status == 401)
            #expect(nobody.problem?.reason == "no_session")
            let signedIn = try await client.signIn()
            let requests = mock.observations.snapshot().total
            let somebody = try await client.get("/auth")
            #expect(somebody.status == 200)
            #expect(somebody.body == signedIn.body)
            #expect(somebody.values(of: "Set-Cookie") == [])
            let response = try somebody.json(as: WhoAmI.self)
            #expect(response.user == WhoAmI.User(email: "jo@example.com", name: "Jo"))
            #expect(response.session.idleTimeoutSeconds == 900)
            #expect(mock.observations.snapshot().total == requests)
        }
    }

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
            if polled == "/auth" { #expect(end.values(of: "Set-Cookie") == []) }
            let requests = mock.observations.snapshot().count("GET", "/videos/1")
            for response in [end, try await client.get(other)] {
                #expect(response.status == 401)
                #expect(response.problem?.reason == reason)
            }
            #expect(mock.observations.snapshot().count("GET", "/videos/1") == requests)
        }
    }

    @Test("At the session limit, sign-ins are 503 with Retry-After, and existing sessions stay valid")
    func noRoom() async throws {
        try await GatewayProcess.running(set: ["session.maxSessions=1"]) { gateway, mock in
            let first = gateway.client
            let second = first.other()
            #expect(try await first.signIn().status == 200)
            let rejected = try await second.signIn(email: "mia@example.com", password: "geheim")
            #expect(rejected.status == 503)
            #expect(rejected.problem?.code == "overloaded")
            let retryAfter = try #require(rejected.values(of: "Retry-After").first)
            #expect((Int(retryAfter) ?? 0) > 0)
            #expect(second.cookie == nil)
            // The tokens that were not stored are revoked.
            #expect(mock.observations.snapshot().count("POST", "/auth/revoke") == 1)
            #expect(try await first.get("/videos/1").status == 200)

            #expect(try await first.send("DELETE", "/auth").status == 204)
            let admitted = try await second.signIn(email: "mia@example.com", password: "geheim")
            #expect(admitted.status == 200)
        }
    }

    @Test("Signing out takes effect although the revocation at the API fails")
    func signOutWithoutAPI() async throws {
        try await GatewayProcess.running { gateway, mock in
            let client = gateway.client
            _ = try await client.signIn()
            let ticket = try #require(client.cookie)
            mock.faults.failNext("POST", "/auth/revoke", statuses: [500])
            #expect(try await client.send("DELETE", "/auth").status == 204)
            #expect(client.cookie == nil)
            let stale = try await client.other(cookie: ticket).get("/auth")
            #expect(stale.status == 401)
            #expect(stale.problem?.reason == "revoked")
            let again = try await client.send("DELETE", "/auth")
            #expect(again.status == 204)
        }
    }

    @Test("Two different tickets, or an invalid one, are no session")
    func oddCookies() async throws {
        try await GatewayProcess.running { gateway, mock in
            let client = gateway.client
            _ = try await client.signIn()
            let ticket = try #require(client.cookie)
            let requests = mock.observations.snapshot().total
            let other = String(repeating: "A", count: 43)
            let name = WebClient.cookieName
            for cookie in [
                "\(name)=\(ticket); \(name)=\(other)", "\(name)=", "\(name)=\(ticket)x", "\(name)=\"\(ticket)\"",
                "\(name)=\(ticket.dropLast())", "\(name)", ";;;=;", "X\(name)=\(ticket)",
            ] {
                let response = try await client.other().get("/videos/1", [("Cookie", cookie)])
                #expect(response.status == 401, "\(cookie)")
                #expect(response.problem?.reason == "no_session", "\(cookie)")
            }
            #expect(mock.observations.snapshot().total == requests)
            let twice = try await client.other().get("/videos/1", [("Cookie", "\(name)=\(ticket); \(name)=\(ticket)")])
            #expect(twice.status == 200)
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
                let ticket = try #require(signedIn.cookie)
                #expect(signedIn.values(of: "Set-Cookie") == ["__Secure-cloakroom=\(ticket)\(attributes)"])
                let own = "Cookie: __Secure-cloakroom=\(ticket)"
                let planted = "Cookie: __Secure-cloakroom=\(String(repeating: "A", count: 43))"
                let two = try await curl(version, "-H", own, "-H", planted, video)
                #expect(two.problem?.reason == "no_session")
                #expect(try await curl(version, "-H", own, video).status == 200)
                let signedOut = try await curl(version, "-H", own, "-X", "DELETE", auth)
                #expect(signedOut.values(of: "Set-Cookie") == ["__Secure-cloakroom=\(attributes); Max-Age=0"])
            }
            let isWarning = { (line: Substring) in line.contains("every host below example.com") }
            _ = try await gateway.program.waits(for: "the warning") { $0.lines.first(where: isWarning) }
            #expect(gateway.program.lines.count(where: isWarning) == 1)
        }
    }
}
