import MockAPI
import TestSupport
import Testing

/// Which upstream receives the tokens of a session after the configuration names another one, tested through the
/// running program.
@Suite("The source of a session", .serialized, .timeLimit(.minutes(4)))
struct SessionSourceTests {
    /// Two upstreams that both support sign-in.
    private struct File {
        let a: String
        let b: String
        var accounts = "a"
        /// The name of upstream `a`.
        var name = "a"
        var source: String?

        var yaml: String {
            """
            listeners: [{ address: "127.0.0.1:0" }]
            admin: { address: "127.0.0.1:0" }
            reload: { interval: 0s }
            upstreams:
              \(name): { targets: ["\(a)"], \(source.map { "sessionSource: \($0), " } ?? "")\(Self.calls) }
              b: { targets: ["\(b)"], \(Self.calls) }
            accounts: { upstream: \(accounts) }
            session: { cookie: { secure: false } }
            routes:
              - { name: video, methods: [GET], path: "/videos/{id}", upstream: \(accounts), requiresAuthorization: true,
                  inject: [apiToken, bearer] }
              - { name: episodes, methods: [GET], path: /episodes, upstream: \(accounts), requiresAuthorization: false,
                  inject: [apiToken, bearer] }

            """
        }

        private static let calls = """
            apiToken: { value: demo-api-token }, signIn: { path: /auth }, refresh: { path: /auth/refresh },
                revoke: { path: /auth/revoke }, user: { path: /user }
            """
    }

    private func withMocks(
        _ body: (_ a: RunningMockAPI, _ b: RunningMockAPI, File) async throws -> Void
    ) async throws {
        try await MockAPI.withServer(.withTwoUsers) { a in
            try await MockAPI.withServer(.withTwoUsers) { b in
                try await body(a, b, File(a: a.baseURL, b: b.baseURL))
            }
        }
    }

    /// The values of `Authorization` that a mock has received.
    private func authorizations(_ mock: RunningMockAPI) -> [String] {
        mock.observations.snapshot().recent.flatMap(\.headers)
            .filter { $0.name.lowercased() == "authorization" }.map(\.value)
    }

    @Test(
        "Rule 34: after a reload the new upstream receives no token of the previous one, and the session is revoked",
        arguments: SessionStoreFixture.Kind.allCases)
    func reload(kind: SessionStoreFixture.Kind) async throws {
        try await SessionStoreFixture.with(kind) { place in
            try await withMocks { a, b, file in
                try await GatewayProcess.running(yaml: file.yaml, set: place.settings()) { gateway async throws in
                    let clients = (0..<6).map { _ in gateway.client.other() }
                    for client in clients {
                        try await expect(client.signIn().status, equals: 200)
                        try await expect(client.get("/videos/1").status, equals: 200)
                    }
                    var other = file
                    other.accounts = "b"
                    try await gateway.reload(other.yaml)

                    let video = try await clients[0].get("/videos/1")
                    expect(video.status, equals: 401)
                    expect(video.problem?.reason, equals: "revoked")
                    // A second time: the session has ended now.
                    try await expect(clients[0].get("/videos/1").problem?.reason, equals: "revoked")
                    try await expect(clients[1].get("/auth").problem?.reason, equals: "revoked")
                    // A route without a required session is served, without a bearer token.
                    try await expect(clients[2].get("/episodes").status, equals: 200)
                    try await expect(clients[3].send("DELETE", "/auth").status, equals: 204)
                    try await expect(clients[4].get("/auth/sessions").problem?.reason, equals: "revoked")
                    expect(empty: authorizations(b))
                    // A new sign-in at the other upstream ends the presented session, and revokes nothing at the new
                    // upstream.
                    try await expect(clients[5].signIn().status, equals: 200)
                    try await expect(clients[5].get("/videos/1").status, equals: 200)
                    let ofA = Set(authorizations(a).filter { $0.hasPrefix("Bearer ") })
                    expect(!ofA.isEmpty)
                    expect(ofA.isDisjoint(with: authorizations(b)))
                    expect(b.observations.snapshot().count("POST", "/auth/revoke"), equals: 0)
                    expect(b.observations.snapshot().count("POST", "/auth/refresh"), equals: 0)
                    expect(a.observations.snapshot().count("GET", "/videos/1"), equals: 6)
                }
            }
        }
    }
}
