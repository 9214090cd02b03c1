import CloakroomIdentity
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The token clients of several sources", .timeLimit(.minutes(1)))
struct TokenClientsTests {
    private static let sources = [
        SessionSource(upstream: "api"), SessionSource(identity: "company", issuer: "https://id.example.com"),
    ]

    private let time = ManualTime()
    private let store = ScriptedStore(CallRecorder())
    private let clients = [RotatingClient(), RotatingClient()]
    private let observer = RecordingObserver()

    private var tokenClients: TokenClients {
        TokenClients(signIn: (Self.sources[0], clients[0]), others: [Self.sources[1]: clients[1]])
    }

    private var refresher: TokenRefresher {
        TokenRefresher(
            store: store, clients: tokenClients, observer: observer, limits: RefresherFixture.limits,
            clock: { [time] in time.now }, sessionClock: { [time] in time.sessionTime },
            leaseClock: { [time] in time.leaseTime }, sleep: { [time] in try await time.sleep(for: $0) })
    }

    private func session(_ source: SessionSource, _ name: String) async throws -> (ticket: SessionTicket, Session) {
        let tokens = TokenSet(
            authorization: Secret("Bearer canary-access-\(name)"), refreshToken: Secret("canary-refresh-\(name)"),
            accessTokenExpiresAt: time.now, obtainedAt: time.now - .seconds(300))
        let user = UserProfile(json: Array("{}".utf8), account: AccountName(email: "\(name)@example.com"))
        return try await store.create(NewSession(user: user, tokens: tokens, source: source), now: time.sessionTime)
    }

    @Test("A refresh reaches the client of the session's source, and no other")
    func refresh() async throws {
        for (index, source) in Self.sources.enumerated() {
            let (ticket, session) = try await session(source, "\(index)")
            let outcome = await refresher.refresh(session, ticket: ticket, cause: .expired, traceparent: nil)
            expect(outcome.session?.authorization, equals: Secret("Bearer canary-renewed-1"))
        }
        expect(clients.map(\.refreshed), equals: [[Secret("canary-refresh-0")], [Secret("canary-refresh-1")]])
    }

    private func provenance(_ claims: String) -> SessionProvenance {
        SessionProvenance(
            identity: "company", issuer: "https://id.example.com", subject: "jo", nonceHash: [],
            claims: Array(claims.utf8))
    }

    @Test("An update of the provenance is saved with the tokens")
    func savedProvenance() async throws {
        let provenance = provenance("")
        clients[1].state(provenance: provenance)
        let (ticket, session) = try await session(Self.sources[1], "1")
        let outcome = await refresher.refresh(session, ticket: ticket, cause: .expired, traceparent: nil)
        expect(outcome.session?.provenance, equals: provenance)
    }

    @Test("What the provider states about the user after a refresh is saved, if it changed")
    func updatedUser() async throws {
        clients[1].state(provenance: provenance("{}"))
        let refresher = refresher
        for claims in [#"{"a":1}"#, "{}"] {
            clients[1].state(user: provenance(claims))
            let (ticket, session) = try await session(Self.sources[1], "1")
            let outcome = await refresher.refresh(session, ticket: ticket, cause: .expired, traceparent: nil)
            expect(outcome.session?.provenance, equals: provenance(claims))
            await until { refresher.inFlightCount == 0 }
            let kept = try require(store.active(ticket, now: time.sessionTime))
            expect(kept.provenance, equals: provenance(claims))
            expect(kept.version, equals: 2)
        }
    }

    @Test("Revocations reach the client of each session")
    func revocations() async throws {
        var ended: [EndedSession] = []
        for (index, source) in Self.sources.enumerated() {
            let (_, session) = try await session(source, "\(index)")
            ended.append(EndedSession(id: session.id, opened: session))
        }
        let revocations = TokenRevocations(clients: tokenClients, observer: observer)
        expect(revocations.revoke(ended), equals: .revoking)
        await revocations.finish(within: .seconds(30))
        expect(clients.map(\.revoked), equals: [[Secret("canary-refresh-0")], [Secret("canary-refresh-1")]])
    }

    @Test("Without an upstream that signs users in there is no sign-in with credentials")
    func noSignIn() async {
        let endpoints = AccountController(
            store: store, clients: TokenClients(others: [Self.sources[1]: clients[1]]), observer: observer,
            session: SessionConfiguration(), accounts: AccountsConfiguration(),
            accounts: AccountHasher(Upstreams.accountKey))
        let response = await endpoints.respond(
            AccountRequest(
                endpoint: .signIn, contentType: "application/json",
                body: Secret(#"{"email":"jo@example.com","password":"canary-password"}"#),
                now: Upstreams.now.sessionTime))
        expect(response.problem?.code, equals: .notFound)
    }
}
