import CloakroomCore
import CloakroomIdentity
import Testing

@Suite("Sessions whose tokens come from another upstream")
struct SessionSourceTests {
    private let subject = EndpointsUnderTest()
    private let other = SessionSource(upstream: "other")

    private func session() async throws -> SessionTicket {
        let signedIn = EndpointsUnderTest.signedIn("other")
        let new = NewSession(user: signedIn.user, tokens: signedIn.tokens, source: other)
        return try await subject.store.create(new, now: EndpointsUnderTest.now).0
    }

    private func callsUpstream(_ prefix: String) -> [String] {
        subject.journal.all.filter { $0.hasPrefix(prefix) }
    }

    @Test(
        "Rule 34: are revoked for all that asks who one is",
        arguments: [OwnEndpoint.whoAmI, .listSessions, .endOtherSessions])
    func ended(endpoint: OwnEndpoint) async throws {
        let ticket = try await session()
        #expect(await subject.sessions(endpoint, ticket: ticket).problem?.reason == .revoked)
        #expect(subject.store.count == 0)
        #expect(subject.journal.all.last == "end source_gone")
    }

    @Test("Rule 34: end at sign-out, and their tokens go nowhere")
    func signOut() async throws {
        let ticket = try await session()
        #expect(await subject.signOut(ticket).status == 204)
        #expect(subject.store.count == 0)
        #expect(callsUpstream("revoke").isEmpty)
    }

    @Test("Rule 34: make way for a new one, and their tokens go nowhere")
    func replaced() async throws {
        let ticket = try await session()
        #expect(await subject.signIn(ticket: ticket).status == 200)
        #expect(subject.store.count == 1)
        #expect(callsUpstream("revoke").isEmpty)
    }

    @Test("Rule 34: are not renewed, neither before a request nor beside it")
    func renewal() async throws {
        let subject = RenewerUnderTest()
        let tokens = SessionTokens(
            authorization: Secret("Bearer a"), refreshToken: Secret("r"), accessExpiresAt: subject.time.now,
            obtainedAt: subject.time.now - .seconds(60))
        let user = UserProfile(json: Array("{}".utf8), account: AccountName(email: "a@b.c"))
        let (ticket, session) = try await subject.store.create(
            NewSession(user: user, tokens: tokens, source: other), now: subject.time.now)
        for cause in [RenewalCause.expiry, .refusal] {
            #expect(await subject.renew(session, ticket, cause: cause).endReason == .revoked)
        }
        subject.renewer.renewSoon(session, ticket: ticket)
        #expect(subject.renewer.flightCount == 0)
        #expect(subject.results.isEmpty)
    }

    @Test("Rule 34: and 40: ended by name, they are not revoked at this upstream, and the event says so")
    func revocations() async throws {
        let revocations = TokenRevocations(client: subject.client, observer: subject.observer, source: .unknown)
        let (ticket, own) = try await subject.session()
        let foreignTicket = try await session()
        guard case .live(let foreign) = subject.store.find(foreignTicket, now: EndpointsUnderTest.now, slides: false)
        else { throw EndpointsUnderTest.NoSession() }
        _ = ticket
        #expect(revocations.revoke([EndedSession(id: foreign.id, opened: foreign)]) == .notRevokedSourceGone)
        let both = [EndedSession(id: foreign.id, opened: foreign), EndedSession(id: own.id, opened: own)]
        #expect(revocations.revoke(both) == .revoking)
        await revocations.finish(within: .seconds(10))
        #expect(callsUpstream("revoke") == ["revoke canary-refresh-x"])
    }
}
