import CloakroomCore
import CloakroomIdentity
import TestSupport
import Testing

@Suite("Sessions whose tokens were issued by another upstream")
struct SessionSourceTests {
    private let subject = AccountControllerFixture()
    private let other = SessionSource(upstream: "other")

    private func session() async throws -> SessionTicket {
        let signedIn = AccountControllerFixture.signedIn("other")
        let new = NewSession(user: signedIn.user, tokens: signedIn.tokens, source: other)
        return try await subject.store.create(new, now: AccountControllerFixture.now).0
    }

    private func callsUpstream(_ prefix: String) -> [String] {
        subject.journal.all.filter { $0.hasPrefix(prefix) }
    }

    @Test(
        "Rule 34: are revoked for all endpoints that require a session",
        arguments: [AccountEndpoint.currentSession, .listSessions, .endOtherSessions])
    func ended(endpoint: AccountEndpoint) async throws {
        let ticket = try await session()
        await expect(subject.sessions(endpoint, ticket: ticket).problem?.reason, equals: .revoked)
        expect(subject.store.count, equals: 0)
        expect(subject.journal.all.last, equals: "end source_gone")
    }

    @Test("Rule 34: end at sign-out, and their tokens are sent to no upstream")
    func signOut() async throws {
        let ticket = try await session()
        await expect(subject.signOut(ticket).status, equals: 204)
        expect(subject.store.count, equals: 0)
        expect(empty: callsUpstream("revoke"))
    }

    @Test("Rule 34: are evicted for a new session, and their tokens are sent to no upstream")
    func replaced() async throws {
        let ticket = try await session()
        await expect(subject.signIn(ticket: ticket).status, equals: 200)
        expect(subject.store.count, equals: 1)
        expect(empty: callsUpstream("revoke"))
    }

    @Test("Rule 34: are refreshed neither before a request nor in the background")
    func refresh() async throws {
        let subject = RefresherFixture()
        let tokens = TokenSet(
            authorization: Secret("Bearer a"), refreshToken: Secret("r"), accessTokenExpiresAt: subject.time.now,
            obtainedAt: subject.time.now - .seconds(60))
        let user = UserProfile(json: Array("{}".utf8), account: AccountName(email: "a@b.c"))
        let (ticket, session) = try await subject.store.create(
            NewSession(user: user, tokens: tokens, source: other), now: subject.time.sessionTime)
        for cause in [RefreshTrigger.expired, .rejected] {
            await expect(subject.refresh(session, ticket, cause: cause).endReason, equals: .revoked)
        }
        subject.refresher.refreshInBackground(session, ticket: ticket)
        expect(subject.refresher.inFlightCount, equals: 0)
        expect(subject.results.isEmpty && subject.client.refreshed.isEmpty)
    }

    @Test("Rules 34 and 40: are not revoked at this upstream if ended by name, and the event reports this")
    func revocations() async throws {
        let revocations = TokenRevocations(
            clients: TokenClients(signIn: (.unknown, subject.client)), observer: subject.observer)
        let (_, own) = try await subject.session()
        let foreign = try require(subject.store.active(try await session(), now: AccountControllerFixture.now))
        expect(revocations.revoke([EndedSession(id: foreign.id, opened: foreign)]), equals: .notRevokedSourceRemoved)
        let both = [EndedSession(id: foreign.id, opened: foreign), EndedSession(id: own.id, opened: own)]
        expect(revocations.revoke(both), equals: .revoking)
        await revocations.finish(within: .seconds(10))
        expect(callsUpstream("revoke"), equals: ["revoke canary-refresh-x"])
    }
}
