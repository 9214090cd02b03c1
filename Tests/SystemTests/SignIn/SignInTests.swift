import Foundation
import MockAPI
import TestSupport
import Testing

/// Sign-ins, tested through the running program.
@Suite("Signing in", .serialized, .timeLimit(.minutes(3)))
struct SignInTests {
    private let json = [("Content-Type", "application/json; charset=utf-8")]
    private let form = [("Content-Type", "application/x-www-form-urlencoded")]

    private func document(_ email: String, _ password: String) throws -> String {
        String(decoding: try JSONEncoder().encode(["email": email, "password": password]), as: UTF8.self)
    }

    private func encoded(_ email: String, _ password: String) -> String {
        func escape(_ text: String) -> String {
            text.utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
        return "email=\(escape(email))&password=\(escape(password))"
    }

    @Test("Credentials are accepted as Basic, JSON and form")
    func dialects() async throws {
        try await GatewayProcess.running { gateway, _ in
            let basic = try await gateway.client.signIn()
            let json = try await gateway.client.send(
                "POST", "/auth", json, body: try document("jo@example.com", "secret"))
            let form = try await gateway.client.send("POST", "/auth", form, body: encoded("jo@example.com", "secret"))
            for response in [basic, json, form] {
                #expect(response.status == 200)
                #expect(response.values(of: "Content-Type") == ["application/json"])
                #expect(try response.json(as: WhoAmI.self).user.name == "Jo")
                #expect(response.cookie?.count == 43)
            }
        }
    }

    @Test("A wrong password and an unknown user get the same response")
    func wrongCredentials() async throws {
        try await GatewayProcess.running { gateway, _ in
            let client = gateway.client
            let wrong = try await client.signIn(password: "wrong")
            let unknown = try await client.signIn(email: "nobody@example.com")
            for response in [wrong, unknown] {
                #expect(response.status == 401)
                #expect(response.problem?.code == "unauthorized")
                #expect(response.problem?.reason == "invalid_credentials")
                #expect(response.problem?.detail == "The email/password combination is invalid.")
                #expect(response.values(of: "Set-Cookie") == [])
            }
            #expect(client.cookie == nil)
        }
    }

    @Test("An email address with two @, a control character or a NUL is 422 and is not sent to the API")
    func impossibleAddresses() async throws {
        let addresses = [
            "jo@@example.com", "jo@example.com@evil.example", "evil@example.com,jo@example.com",
            "jo\u{1}@example.com", "jo@example.com\u{0}", "jo\u{0}@example.com", "jo@example.com\r\nX-Evil: 1",
            "jo@example.com\n", "jo\u{7f}@example.com", "jo@example", "@example.com", "jo", "",
        ]
        try await GatewayProcess.running { gateway, mock in
            let client = gateway.client
            for address in addresses {
                let responses = [
                    try await client.signIn(email: address),
                    try await client.send("POST", "/auth", json, body: try document(address, "secret")),
                    try await client.send("POST", "/auth", form, body: encoded(address, "secret")),
                ]
                for response in responses {
                    #expect(response.status == 422, "\(address.debugDescription)")
                    #expect(response.problem?.code == "invalid_input")
                }
            }
            let empty = try await client.signIn(password: "")
            #expect(empty.status == 422)
            let nothing = try await client.send("POST", "/auth")
            #expect(nothing.status == 422)
            #expect(mock.observations.snapshot().total == 0)
        }
    }

    @Test("A malformed body is 400, and a body that is neither JSON nor a form is 415")
    func unreadable() async throws {
        try await GatewayProcess.running { gateway, mock in
            let client = gateway.client
            let broken = try await client.send("POST", "/auth", json, body: "{\"email\":")
            #expect(broken.status == 400)
            let notBase64 = try await client.send("POST", "/auth", [("Authorization", "Basic ***")])
            #expect(notBase64.status == 400)
            let twice = try await client.send("POST", "/auth", form, body: "email=a@b.c&email=d@e.f&password=x")
            #expect(twice.status == 400)
            let text = try await client.send("POST", "/auth", [("Content-Type", "text/plain")], body: "jo:secret")
            #expect(text.status == 415)
            #expect(mock.observations.snapshot().total == 0)
        }
    }

    @Test("A body of more than 1 KiB is 413, with and without a declared length")
    func tooLarge() async throws {
        try await GatewayProcess.running { gateway, mock in
            let curl = try Curl()
            let room = 1_024 - (try document("jo@example.com", "")).utf8.count
            try curl.directory.write(try document("jo@example.com", String(repeating: "x", count: room)), to: "largest")
            try curl.directory.write(
                try document("jo@example.com", String(repeating: "x", count: room + 1)), to: "larger")
            let framings = ["X-Length: told", "Transfer-Encoding: chunked"]
            for field in framings {
                let response = try await curl(
                    "-X", "POST", "-H", "Content-Type: application/json", "-H", field, "--data-binary", "@larger",
                    "\(gateway.clear)/auth")
                #expect(response.status == 413)
                #expect(response.problem?.code == "content_too_large")
            }
            #expect(mock.observations.snapshot().total == 0)
            for field in framings {
                let response = try await curl(
                    "-X", "POST", "-H", "Content-Type: application/json", "-H", field, "--data-binary", "@largest",
                    "\(gateway.clear)/auth")
                #expect(response.problem?.reason == "invalid_credentials")
            }
            let afterwards = try await gateway.client.signIn()
            #expect(afterwards.status == 200)
        }
    }

    @Test("A planted cookie is replaced, and is invalid after the sign-in")
    func plantedCookie() async throws {
        try await GatewayProcess.running { gateway, _ in
            let planted = String(repeating: "A", count: 43)
            let victim = gateway.client.other(cookie: planted)
            let response = try await victim.signIn()
            #expect(response.status == 200)
            #expect(response.cookie?.count == 43)
            #expect(response.cookie != planted)
            let attacker = try await gateway.client.other(cookie: planted).get("/videos/1")
            #expect(attacker.status == 401)
            #expect(attacker.problem?.reason == "no_session")
        }
    }

    @Test("A second sign-in sets a new cookie and ends the presented session")
    func signInAgain() async throws {
        try await GatewayProcess.running { gateway, mock in
            let client = gateway.client
            var cookies: [String] = []
            for round in 1...3 {
                let response = try await client.signIn()
                #expect(response.status == 200)
                let cookie = try #require(response.cookie)
                #expect(!cookies.contains(cookie))
                for old in cookies {
                    let stale = try await client.other(cookie: old).get("/videos/1")
                    #expect(stale.status == 401)
                    #expect(stale.problem?.reason == "revoked")
                }
                cookies.append(cookie)
                // The tokens of the old session are revoked too.
                #expect(mock.observations.snapshot().count("POST", "/auth/revoke") == round - 1)
            }
            let video = try await client.get("/videos/1")
            #expect(video.status == 200)
        }
    }

    @Test("A failed sign-in keeps the presented session")
    func failedSignInAgain() async throws {
        try await GatewayProcess.running { gateway, _ in
            let client = gateway.client
            _ = try await client.signIn()
            let wrong = try await client.signIn(password: "wrong")
            #expect(wrong.status == 401)
            let video = try await client.get("/videos/1")
            #expect(video.status == 200)
        }
    }

    @Test("Simultaneous sign-ins of two users never return each other's data")
    func twoPeople() async throws {
        try await GatewayProcess.running { gateway, _ in
            let people = [("jo@example.com", "secret"), ("mia@example.com", "geheim")]
            let cookies = try await withThrowingTaskGroup(of: [String].self) { group in
                for (email, password) in people + people {
                    let first = gateway.client
                    group.addTask {
                        var cookies: [String] = []
                        for _ in 1...10 {
                            let client = first.other()
                            let signedIn = try await client.signIn(email: email, password: password)
                            #expect(try signedIn.json(as: WhoAmI.self).user.email == email)
                            let whoAmI = try await client.get("/auth")
                            #expect(try whoAmI.json(as: WhoAmI.self).user.email == email)
                            let user = try await client.get("/user")
                            #expect(try user.json(as: WhoAmI.User.self).email == email)
                            cookies.append(try #require(client.cookie))
                        }
                        return cookies
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            #expect(cookies.count == 40)
            #expect(Set(cookies).count == 40)
        }
    }
}
