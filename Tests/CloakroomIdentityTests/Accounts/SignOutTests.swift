import CloakroomCore
import CloakroomIdentity
import Testing

@Suite("DELETE of the accounts prefix")
struct SignOutTests {
    private let subject = AccountControllerFixture()

    private let cleared = "__Host-cloakroom=; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=0"

    @Test("ends the session first, then revokes its tokens, and clears the cookie")
    func signsOut() async throws {
        let ticket = try await subject.ticket()
        let id = try subject.id(of: ticket)
        let response = await subject.signOut(ticket)
        #expect(response.status == 204)
        #expect(response.content == .none)
        #expect(response.values(of: "Set-Cookie") == [cleared])
        #expect(response.values(of: "Clear-Site-Data") == [#""cache", "storage""#])
        #expect(subject.journal.all.suffix(2) == ["end signed_out", "revoke canary-refresh-1"])
        #expect(subject.observer.all.last == .signOut(id))
        #expect(subject.client.traceparents.last == "00-trace")
        #expect(await subject.whoAmI(ticket).problem?.reason == .revoked)
    }

    @Test("succeeds if the upstream is unavailable, and reports this to the operator")
    func revokeFails() async throws {
        let ticket = try await subject.ticket()
        let id = try subject.id(of: ticket)
        subject.client.failRevoke(.unreachable)
        #expect(await subject.signOut(ticket).status == 204)
        #expect(subject.observer.all.suffix(2) == [.signOut(id), .revokeFailed(id)])
        #expect(await subject.whoAmI(ticket).problem?.reason == .revoked)
    }

    @Test("responds the same when repeated or without a session, and emits no event")
    func idempotent() async throws {
        let ticket = try await subject.ticket()
        let first = await subject.signOut(ticket)
        let told = subject.observer.all.count
        #expect(await subject.signOut(ticket) == first)
        #expect(await subject.signOut(nil) == first)
        #expect(subject.observer.all.count == told)
    }

    @Test("Rule 101: with several session cookies, each session ends and its tokens are revoked")
    func ambiguous() async throws {
        let one = try await subject.ticket()
        subject.client.response(.success(AccountControllerFixture.signedIn("2")))
        let two = try await subject.ticket()
        let value = Array(String(repeating: "A", count: 43).utf8)
        let made = SessionTicket(cookieValue: value.span)
        let unknown = try #require(made)
        let ids = [try subject.id(of: one), try subject.id(of: two)]
        #expect(await subject.respond(.currentSession, ambiguous: [one, two]).problem?.reason == .noSession)
        let response = await subject.respond(.signOut, ambiguous: [one, unknown, two])
        #expect(response.status == 204)
        #expect(response.values(of: "Set-Cookie") == [cleared])
        #expect(Array(subject.observer.all.suffix(2)) == ids.map { .signOut($0) })
        #expect(subject.journal.all.suffix(2) == ["revoke canary-refresh-1", "revoke canary-refresh-2"])
        for ticket in [one, two] { #expect(await subject.whoAmI(ticket).problem?.reason == .revoked) }
    }

    @Test("is 503 if the store is unavailable, and keeps the cookie for another attempt")
    func storeDown() async throws {
        let ticket = try await subject.ticket()
        subject.store.fail(.end, .unavailable)
        let response = await subject.signOut(ticket)
        #expect(response.problem == Problem(.storeUnavailable, retryAfter: 5))
        #expect(response.fields.isEmpty)
        #expect(!subject.journal.all.contains { $0.hasPrefix("revoke") })
    }
}
