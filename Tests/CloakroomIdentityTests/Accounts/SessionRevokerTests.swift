import CloakroomCore
import CloakroomIdentity
import TestSupport
import Testing

@Suite("An operator ending sessions")
struct SessionRevokerTests {
    private let subject = AccountControllerFixture()
    private let origin = AuditContext(peer: "127.0.0.1")
    private var revoker: SessionRevoker {
        let revocations = TokenRevocations(
            clients: TokenClients(signIn: (.unknown, subject.client)), observer: subject.observer)
        return SessionRevoker(
            sessions: subject.store, observer: subject.observer, source: { SessionSource(upstream: "api") },
            revoke: { revocations.revoke($0) })
    }

    @Test("Rule 35: ends a user's sessions by the upstream's user id and by the typed e-mail address")
    func userID() async throws {
        let account = AccountName(userID: "17", source: SessionSource(upstream: "api"))
        func signIn(_ email: String) async throws -> SessionTicket {
            var user = AccountControllerFixture.signedIn("1", account: account).user
            user.name = AccountName(email: email)
            let new = NewSession(user: user, tokens: AccountControllerFixture.signedIn("1").tokens)
            return try await subject.store.create(new, now: AccountControllerFixture.now).0
        }
        let tickets = [try await signIn("j\u{f6}@example.com"), try await signIn("jo@example.com")]
        let typed = AccountName(email: "JO@example.com")
        try await expect(revoker.revoke(user: typed, from: origin, now: AccountControllerFixture.now), equals: 1)
        await expect(subject.whoAmI(tickets[0]).status, equals: 200)
        try await expect(revoker.revoke(userID: "17", from: origin, now: AccountControllerFixture.now), equals: 1)
        await expect(subject.whoAmI(tickets[0]).status, equals: 401)
        try await expect(revoker.revoke(userID: "18", from: origin, now: AccountControllerFixture.now), equals: 0)
    }

    @Test("ends all sessions of a user and writes an audit event")
    func user() async throws {
        let (ticket, first) = try await subject.session()
        let (_, second) = try await subject.session()
        let (foreign, _) = try await subject.session(of: AccountName(email: "al@example.com"))
        let account = AccountName(email: " JO@example.com")
        try await expect(revoker.revoke(user: account, from: origin, now: AccountControllerFixture.now), equals: 2)
        await expect(subject.whoAmI(ticket).problem?.reason, equals: .revoked)
        await expect(subject.whoAmI(foreign).status, equals: 200)
        guard case .revoked(let ended, .revoking) = subject.observer.all.last else {
            Issue.record("the observer was not called")
            return
        }
        expect(Set(ended), equals: [first.id, second.id])
        try await expect(revoker.revoke(user: account, from: origin, now: AccountControllerFixture.now), equals: 0)
        expect(subject.observer.all.count, equals: 1)
    }

    @Test("ends one session of any user by its name")
    func session() async throws {
        let (ticket, session) = try await subject.session()
        try await expect(
            revoker.revoke(session: session.id, from: origin, now: AccountControllerFixture.now), equals: 1)
        await expect(subject.whoAmI(ticket).problem?.reason, equals: .revoked)
        expect(subject.observer.all, equals: [.revoked([session.id], tokens: .revoking)])
        await until { subject.journal.all.last?.hasPrefix("revoke canary-refresh-") == true }
        try await expect(
            revoker.revoke(session: session.id, from: origin, now: AccountControllerFixture.now), equals: 0)
        expect(subject.observer.all.count, equals: 1)
    }

    @Test("Rule 24: gets an error if the store fails halfway, and the sessions that have ended are in the audit log")
    func halfway() async throws {
        let (_, first) = try await subject.session()
        let (_, second) = try await subject.session()
        subject.store.failAfterEnding()
        await #expect(throws: SessionStoreError(.unavailable)) {
            try await revoker.revoke(
                user: AccountControllerFixture.account, from: origin, now: AccountControllerFixture.now)
        }
        guard case .revoked(let ended, .revoking) = subject.observer.all.last else {
            Issue.record("the observer was not called")
            return
        }
        expect(Set(ended), equals: [first.id, second.id])
    }

    @Test("gets an error if the store is unavailable")
    func storeDown() async {
        subject.store.fail(.end, .unavailable)
        subject.store.fail(.endAll, .unavailable)
        await #expect(throws: SessionStoreError(.unavailable)) {
            try await revoker.revoke(session: SessionID(1), from: origin, now: AccountControllerFixture.now)
        }
        await #expect(throws: SessionStoreError(.unavailable)) {
            try await revoker.revoke(
                user: AccountControllerFixture.account, from: origin, now: AccountControllerFixture.now)
        }
    }
}
