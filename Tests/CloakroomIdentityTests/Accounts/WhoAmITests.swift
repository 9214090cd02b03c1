import CloakroomCore
import CloakroomIdentity
import TestSupport
import Testing

@Suite("GET of the accounts prefix")
struct WhoAmITests {
    private let subject = AccountControllerFixture()

    @Test("returns the user and the times, as sign-in did")
    func tells() async throws {
        let signedIn = await subject.signIn()
        let response = await subject.whoAmI(signedIn.ticket, at: AccountControllerFixture.now + .seconds(60))
        expect(response.status, equals: 200)
        expect(response.json, equals: signedIn.json)
        expect(empty: response.fields)
    }

    @Test("The keys of assertions are for caches too, and need no session")
    func keys() async {
        let subject = AccountControllerFixture(keys: Array(#"{"keys":[]}"#.utf8))
        let request = AccountRequest(endpoint: .keys, now: AccountControllerFixture.now)
        let response = await subject.endpoints.respond(request)
        expect(response.status == 200 && response.json == #"{"keys":[]}"# && response.fields.isEmpty)
        expect(response.cacheControl, equals: "public, max-age=300")
    }

    @Test("is 401 with the reason, and keeps the cookie")
    func unauthorized() async throws {
        let ticket = try await subject.ticket()
        await expect(subject.whoAmI(nil).problem, equals: Problem(.unauthorized, reason: .noSession))
        let late = await subject.whoAmI(ticket, at: AccountControllerFixture.now + .seconds(9 * 3_600))
        expect(late.problem, equals: Problem(.unauthorized, reason: .expiredAbsolute))
        _ = await subject.signOut(ticket)
        let out = await subject.whoAmI(ticket)
        expect(out.problem, equals: Problem(.unauthorized, reason: .revoked))
        expect(late.fields.isEmpty && out.fields.isEmpty)
    }

    @Test("reads from the store if the session is not cached locally")
    func remote() async throws {
        let ticket = try await subject.ticket()
        subject.store.becomeRemote()
        await expect(subject.whoAmI(ticket).status, equals: 200)
        var generator = SystemRandomNumberGenerator()
        await expect(subject.whoAmI(SessionTicket(using: &generator)).problem?.reason, equals: .noSession)
    }
}
