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
                    try await expect(client.signIn().status, equals: 200)
                    gateway.program.send(SIGKILL)
                    try await expect(gateway.program.ending().wasKilled)
                    return client.cookie
                }
                try await test(place, file, ticket)
            }
        }
    }

    @Test("A session survives kill -9 of the gateway", arguments: [SessionStoreFixture.Kind.sqlite, .valkey])
    func killed(kind: SessionStoreFixture.Kind) async throws {
        try await withSession(in: kind) { place, file, ticket in
            try await GatewayProcess.running(file, set: place.settings()) { gateway async throws in
                let client = gateway.client.other(cookie: ticket)
                try await expect(client.get("/videos/1").status, equals: 200)
                try await expect(client.get("/auth").json(as: WhoAmI.self).user.name, equals: "Jo")
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
                try await expect(client.get("/videos/1").status, equals: 200)
                // Sealed again by its use; records written under the old secret are found with the new one too.
                try await eventually("it is listed under the new secret") {
                    try await client.get("/auth/sessions").body.contains("\"current\":true")
                }
                gateway.program.send(SIGTERM)
                try await expect(gateway.program.ending().status, equals: 0)
            }
            try await GatewayProcess.running(file, set: place.settings(secrets: [new])) { gateway async throws in
                try await expect(gateway.client.other(cookie: ticket).get("/videos/1").status, equals: 200)
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
                expect(response.status, equals: 401)
                expect(response.problem?.reason, equals: "no_session")
                try await eventually("the audit line") {
                    gateway.program.output.contains(#""event":"session_unreadable""#)
                }
                try await expect(client.signIn().status, equals: 200)
                try await expect(client.get("/videos/1").status, equals: 200)
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
            expect(ready.status, equals: 503)
            expect(ready.body.contains("session store"))
            try await expect(!admin.get("/metrics").body.contains("cloakroom_sessions_active"))
            try await expect(admin.get("/live").status, equals: 200)
            try await expect(gateway.client.get("/episodes").status, equals: 200)
            let rejected = try await gateway.client.signIn()
            expect(rejected.status, equals: 503)
            expect(rejected.problem?.code, equals: "store_unavailable")
            expect(rejected.values(of: "Retry-After") != [])
            let stranger = gateway.client.other(cookie: String(repeating: "A", count: 43))
            try await expect(stranger.get("/videos/1").status, equals: 503)
            try await eventually("a log line with the address") {
                gateway.program.output.contains("127.0.0.1:\(place.port)")
            }
            try await place.withServer {
                try await eventually("the gateway is ready") { try await admin.get("/ready").status == 200 }
                try await expect(gateway.client.signIn().status, equals: 200)
            }
        }
    }
}
