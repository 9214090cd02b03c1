import Foundation
import MockAPI
import TestSupport
import Testing

/// Properties of every session store, tested through the running program.
@Suite("Sessions in every store", .serialized, .timeLimit(.minutes(4)))
struct StoreTests {
    /// Runs a test with a session of Jo that a gateway has created in a store before it was killed.
    private func withSession(
        in kind: SessionStoreFixture.Kind, secrets: [String] = [],
        _ test: (_ place: SessionStoreFixture, _ file: GatewayYAML, _ ticket: String?) async throws -> Void
    ) async throws {
        try await SessionStoreFixture.with(kind) { place in
            try await MockAPI.withServer(.withTwoUsers) { mock in
                let file = GatewayYAML(upstream: mock.baseURL)
                let ticket = try await GatewayProcess.running(file, set: place.settings(secrets: secrets)) {
                    gateway async throws in
                    let client = gateway.client
                    #expect(try await client.signIn().status == 200)
                    gateway.program.send(SIGKILL)
                    #expect(try await gateway.program.ending().wasKilled)
                    return client.cookie
                }
                try await test(place, file, ticket)
            }
        }
    }

    /// Runs a test with two gateways that share a store.
    private func withReplicas(_ test: (GatewayProcess, GatewayProcess) async throws -> Void) async throws {
        try await SessionStoreFixture.with(.valkey) { place in
            try await MockAPI.withServer(.withTwoUsers) { mock in
                let file = GatewayYAML(upstream: mock.baseURL)
                try await GatewayProcess.running(file, set: place.settings()) { first in
                    try await GatewayProcess.running(file, set: place.settings()) { second in
                        try await test(first, second)
                    }
                }
            }
        }
    }

    @Test("After sign-in, use and sign-out the ticket is invalid", arguments: SessionStoreFixture.Kind.allCases)
    func wholeLife(kind: SessionStoreFixture.Kind) async throws {
        try await SessionStoreFixture.with(kind) { place in
            try await GatewayProcess.running(set: place.settings()) { gateway, mock in
                let client = gateway.client
                #expect(try await client.signIn().status == 200)
                #expect(try await client.get("/videos/1").status == 200)
                #expect(try await client.get("/auth").json(as: WhoAmI.self).user.name == "Jo")
                let ticket = client.cookie
                #expect(try await client.send("DELETE", "/auth").status == 204)
                let after = try await client.other(cookie: ticket).get("/videos/1")
                #expect(after.status == 401)
                #expect(after.problem?.reason == "revoked")
                #expect(mock.observations.snapshot().count("POST", "/auth/revoke") == 1)
                #expect(mock.observations.snapshot().count("GET", "/videos/1") == 1)
            }
        }
    }

    @Test("A session survives kill -9 of the gateway", arguments: [SessionStoreFixture.Kind.sqlite, .valkey])
    func killed(kind: SessionStoreFixture.Kind) async throws {
        try await withSession(in: kind) { place, file, ticket in
            try await GatewayProcess.running(file, set: place.settings()) { gateway async throws in
                let client = gateway.client.other(cookie: ticket)
                #expect(try await client.get("/videos/1").status == 200)
                #expect(try await client.get("/auth").json(as: WhoAmI.self).user.name == "Jo")
            }
        }
    }

    @Test("A gateway secret is rotated without ending sessions", arguments: [SessionStoreFixture.Kind.sqlite, .valkey])
    func rotation(kind: SessionStoreFixture.Kind) async throws {
        let old = "an old secret of the gateway's and long enough"
        let new = "a new secret of the gateway's and long enough"
        try await withSession(in: kind, secrets: [old]) { place, file, ticket in
            try await GatewayProcess.running(file, set: place.settings(secrets: [new, old])) { gateway async throws in
                let client = gateway.client.other(cookie: ticket)
                #expect(try await client.get("/videos/1").status == 200)
                // Sealed again by its use; records written under the old secret are found with the new one too.
                try await eventually("it is listed under the new secret") {
                    try await client.get("/auth/sessions").body.contains("\"current\":true")
                }
                gateway.program.send(SIGTERM)
                #expect(try await gateway.program.ending().status == 0)
            }
            try await GatewayProcess.running(file, set: place.settings(secrets: [new])) { gateway async throws in
                #expect(try await gateway.client.other(cookie: ticket).get("/videos/1").status == 200)
            }
        }
    }

    @Test(
        "A record that cannot be opened ends its session with one audit line, and has no other effect",
        arguments: [SessionStoreFixture.Kind.sqlite, .valkey])
    func unreadable(kind: SessionStoreFixture.Kind) async throws {
        let foreign = "another secret that nobody else knows of"
        try await withSession(in: kind) { place, file, ticket in
            try await GatewayProcess.running(file, set: place.settings(secrets: [foreign])) { gateway async throws in
                let client = gateway.client.other(cookie: ticket)
                let response = try await client.get("/videos/1")
                #expect(response.status == 401)
                #expect(response.problem?.reason == "no_session")
                try await eventually("the audit line") {
                    gateway.program.output.contains(#""event":"session_unreadable""#)
                }
                #expect(try await client.signIn().status == 200)
                #expect(try await client.get("/videos/1").status == 200)
            }
        }
    }

    @Test("If the store is unavailable at start, the gateway logs it, is not ready, rejects sign-ins, and recovers")
    func awayAtStart() async throws {
        let place = SessionStoreFixture(
            kind: .valkey, directory: try TemporaryDirectory(), port: try FreePort.next())
        try await GatewayProcess.running(set: place.settings()) { gateway, _ in
            let admin = WebClient(gateway.admin)
            let ready = try await admin.get("/ready")
            #expect(ready.status == 503)
            #expect(ready.body.contains("session store"))
            #expect(try await !admin.get("/metrics").body.contains("cloakroom_sessions_active"))
            #expect(try await admin.get("/live").status == 200)
            #expect(try await gateway.client.get("/episodes").status == 200)
            let rejected = try await gateway.client.signIn()
            #expect(rejected.status == 503)
            #expect(rejected.problem?.code == "store_unavailable")
            #expect(rejected.values(of: "Retry-After") != [])
            let stranger = gateway.client.other(cookie: String(repeating: "A", count: 43))
            #expect(try await stranger.get("/videos/1").status == 503)
            try await eventually("a log line with the address") {
                gateway.program.output.contains("127.0.0.1:\(place.port)")
            }
            try await place.withServer {
                try await eventually("the gateway is ready") { try await admin.get("/ready").status == 200 }
                #expect(try await gateway.client.signIn().status == 200)
            }
        }
    }

    @Test("A user's sessions can be listed and ended, one or all others, on every replica")
    func selfService() async throws {
        struct Listed: Decodable {
            struct Entry: Decodable {
                var id: String
                var address: String
                var userAgent: String
                var current: Bool
            }
            var sessions: [Entry]
        }
        try await withReplicas { first, second in
            let phone = first.client
            let laptop = second.client
            let tablet = second.client
            let mia = second.client
            for client in [phone, laptop, tablet] { #expect(try await client.signIn().status == 200) }
            #expect(try await mia.signIn(email: "mia@example.com", password: "geheim").status == 200)
            let list = try await phone.get("/auth/sessions")
            #expect(list.status == 200)
            let listed = try list.json(as: Listed.self).sessions
            #expect(listed.count == 3)
            #expect(listed.filter(\.current).count == 1)
            #expect(Set(listed.map(\.address)) == ["127.0.0.1"])
            let own = try await laptop.get("/auth/sessions")
            let laptopID = try #require(own.json(as: Listed.self).sessions.first { $0.current }?.id)

            #expect(try await mia.send("DELETE", "/auth/sessions/\(laptopID)").status == 404)
            #expect(try await phone.send("DELETE", "/auth/sessions/\(laptopID)").status == 204)
            try await eventually("the laptop is signed out") {
                try await laptop.get("/videos/1").status == 401
            }
            #expect(try await tablet.get("/videos/1").status == 200)
            #expect((200...204).contains(try await phone.send("DELETE", "/auth/sessions").status))
            try await eventually("the tablet is signed out") {
                try await tablet.get("/videos/1").status == 401
            }
            #expect(try await phone.get("/videos/1").status == 200)
            #expect(try await mia.get("/videos/1").status == 200)
        }
    }

    @Test("An operator ends sessions by user and by the id in the log, only with a token")
    func adminRevoke() async throws {
        let token = "an-operators-token-for-tests"
        try await GatewayProcess.running(set: ["admin.token=\(token)"]) { gateway, _ in
            let admin = WebClient(gateway.admin)
            let jo = gateway.client
            let mia = gateway.client
            #expect(try await jo.signIn().status == 200)
            #expect(try await mia.signIn(email: "mia@example.com", password: "geheim").status == 200)
            #expect(try await mia.get("/episodes").status == 200)
            let json = [("Content-Type", "application/json")]
            let byUser = #"{"user":"Jo@Example.com"}"#
            #expect(try await admin.send("POST", "/sessions/revoke", json, body: byUser).status == 401)
            let wrong = json + [("Authorization", "Bearer \(token)x")]
            #expect(try await admin.send("POST", "/sessions/revoke", wrong, body: byUser).status == 401)
            #expect(try await jo.get("/videos/1").status == 200)
            let right = json + [("Authorization", "Bearer \(token)")]
            let ended = try await admin.send("POST", "/sessions/revoke", right, body: byUser)
            #expect(ended.status == 200)
            #expect(ended.body.contains("1"))
            #expect(try await jo.get("/videos/1").problem?.reason == "revoked")
            #expect(try await mia.get("/videos/2").status == 200)
            let id = try await gateway.program.waits(for: "the line of Mia's request") { program in
                program.logLines.last { $0.path == "/videos/2" && $0.status == 200 }?.session
            }
            let byID = try await admin.send("POST", "/sessions/revoke", right, body: #"{"session":"\#(id)"}"#)
            #expect(byID.status == 200)
            #expect(try await mia.get("/videos/1").problem?.reason == "revoked")
        }
    }

    @Test("Failed sign-ins at one replica count at the other")
    func sharedThrottle() async throws {
        try await withReplicas { first, second in
            for number in 0..<5 {
                let gateway = number % 2 == 0 ? first : second
                let response = try await gateway.client.signIn(password: "no")
                #expect(response.status == 401)
            }
            for gateway in [first, second] { #expect(try await gateway.client.signIn().status == 429) }
        }
    }

    @Test(
        "Rule 25: a user changed at the API is shown after the tokens are refreshed",
        arguments: SessionStoreFixture.Kind.allCases)
    func changedUser(kind: SessionStoreFixture.Kind) async throws {
        try await SessionStoreFixture.with(kind) { place in
            try await GatewayProcess.running(set: place.settings()) { gateway, mock in
                let client = gateway.client
                #expect(try await client.signIn().status == 200)
                _ = mock.api.renameUser(email: "jo@example.com", to: "Joanna")
                #expect(try await client.get("/auth").json(as: WhoAmI.self).user.name == "Jo")
                mock.faults.failNext("GET", "/videos/1", statuses: [401])
                #expect(try await client.get("/videos/1").status == 200)
                try await eventually("the new name") {
                    try await client.get("/auth").json(as: WhoAmI.self).user.name == "Joanna"
                }
                #expect(mock.observations.snapshot().refreshes == 1)
            }
        }
    }

    @Test("The sixth wrong password in a row is 429 with Retry-After, in every spelling of the account name")
    func throttle() async throws {
        try await GatewayProcess.running { gateway, mock in
            let client = gateway.client
            let spellings = ["jo@example.com", "JO@example.com", "Jo@Example.Com", "jo@EXAMPLE.com", "jO@example.com"]
            for email in spellings { #expect(try await client.signIn(email: email, password: "no").status == 401) }
            let asked = mock.observations.snapshot().count("POST", "/auth")
            #expect(asked == 5)
            let sixth = try await client.signIn()
            #expect(sixth.status == 429)
            #expect(sixth.problem?.code == "throttled")
            #expect(Int(sixth.values(of: "Retry-After").first ?? "") ?? 0 >= 1)
            #expect(mock.observations.snapshot().count("POST", "/auth") == asked)
            // Other accounts are not delayed.
            #expect(try await client.signIn(email: "mia@example.com", password: "geheim").status == 200)
        }
    }
}
