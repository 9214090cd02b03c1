import CloakroomCore
import CloakroomIdentity
import TestSupport
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
        expect(response.status, equals: 204)
        expect(response.content, equals: .none)
        expect(response.values(of: "Set-Cookie"), equals: [cleared])
        expect(response.values(of: "Clear-Site-Data"), equals: [#""cache", "storage""#])
        expect(subject.journal.all.suffix(2), equals: ["end signed_out", "revoke canary-refresh-1"])
        expect(subject.observer.all.last, equals: .signOut(id))
        expect(subject.client.traceparents.last, equals: "00-trace")
        await expect(subject.whoAmI(ticket).problem?.reason, equals: .revoked)
    }

    @Test("succeeds if the upstream is unavailable, and reports this to the operator")
    func revokeFails() async throws {
        let ticket = try await subject.ticket()
        let id = try subject.id(of: ticket)
        subject.client.failRevoke(.unreachable)
        await expect(subject.signOut(ticket).status, equals: 204)
        expect(subject.observer.all.suffix(2), equals: [.signOut(id), .revokeFailed(id)])
        await expect(subject.whoAmI(ticket).problem?.reason, equals: .revoked)
    }

    @Test("responds the same when repeated or without a session, and emits no event")
    func idempotent() async throws {
        let ticket = try await subject.ticket()
        let first = await subject.signOut(ticket)
        let told = subject.observer.all.count
        await expect(subject.signOut(ticket), equals: first)
        await expect(subject.signOut(nil), equals: first)
        expect(subject.observer.all.count, equals: told)
    }

    @Test("Rule 101: with several session cookies, each session ends and its tokens are revoked")
    func ambiguous() async throws {
        let one = try await subject.ticket()
        subject.client.response(.success(AccountControllerFixture.signedIn("2")))
        let two = try await subject.ticket()
        let value = Array(String(repeating: "A", count: 43).utf8)
        let made = SessionTicket(cookieValue: value.span)
        let unknown = try require(made)
        let ids = [try subject.id(of: one), try subject.id(of: two)]
        await expect(subject.respond(.currentSession, ambiguous: [one, two]).problem?.reason, equals: .noSession)
        let response = await subject.respond(.signOut, ambiguous: [one, unknown, two])
        expect(response.status, equals: 204)
        expect(response.values(of: "Set-Cookie"), equals: [cleared])
        expect(Array(subject.observer.all.suffix(2)), equals: ids.map { .signOut($0) })
        expect(subject.journal.all.suffix(2), equals: ["revoke canary-refresh-1", "revoke canary-refresh-2"])
        for ticket in [one, two] { await expect(subject.whoAmI(ticket).problem?.reason, equals: .revoked) }
    }

    @Test("is 503 if the store is unavailable, and keeps the cookie for another attempt")
    func storeDown() async throws {
        let ticket = try await subject.ticket()
        subject.store.fail(.end, .unavailable)
        let response = await subject.signOut(ticket)
        expect(response.problem, equals: Problem(.storeUnavailable, retryAfter: 5))
        expect(empty: response.fields)
        expect(!subject.journal.all.contains { $0.hasPrefix("revoke") })
    }
}
