import CloakroomCore
import CloakroomIdentity
import Foundation
import TestSupport
import Testing

@Suite("DELETE of sessions under the accounts prefix")
struct EndSessionsTests {
    private let subject = AccountControllerFixture()

    private let other = AccountName(email: "al@example.com")

    @Test(
        "Rule 40: ends one of the user's sessions: 204, its ticket reports \"revoked\", its tokens are revoked too")
    func endsOne() async throws {
        let (ticket, current) = try await subject.session()
        let (oldTicket, old) = try await subject.session()
        let response = await subject.sessions(.endSession, "\(old.id)", ticket: ticket)
        expect(response, equals: AccountResponse(status: 204))
        await expect(subject.whoAmI(oldTicket).problem?.reason, equals: .revoked)
        await expect(subject.whoAmI(ticket).status, equals: 200)
        expect(subject.observer.all, equals: [.signOutOthers([old.id], by: current.id, tokens: .revoking)])
        await until { subject.journal.all.contains { $0.hasPrefix("revoke canary-refresh-") } }
        await expect(subject.sessions(.endSession, "\(old.id)", ticket: ticket).problem, equals: Problem(.notFound))
    }

    @Test("does not distinguish another user's session from a missing one: both are 404, and no session ends")
    func foreign() async throws {
        let (ticket, _) = try await subject.session()
        let (foreignTicket, foreign) = try await subject.session(of: other)
        let response = await subject.sessions(.endSession, "\(foreign.id)", ticket: ticket)
        expect(response, equals: AccountResponse(Problem(.notFound)))
        await expect(subject.sessions(.endSession, "0123456789abcdef", ticket: ticket), equals: response)
        await expect(subject.whoAmI(foreignTicket).status, equals: 200)
        expect(empty: subject.observer.all)
    }

    @Test(
        "A malformed session name is 404",
        arguments: [nil, "", "x", "0123456789ABCDEF", "0123456789abcdef0", "..", "*", "%00"] as [String?])
    func malformed(name: String?) async throws {
        let (ticket, _) = try await subject.session()
        await expect(subject.sessions(.endSession, name, ticket: ticket), equals: AccountResponse(Problem(.notFound)))
        expect(subject.store.count, equals: 1)
    }

    @Test("Ending the current session signs out: the cookie and the site data are cleared, the tokens revoked")
    func current() async throws {
        let ticket = try await subject.ticket()
        let id = try subject.id(of: ticket)
        let response = await subject.sessions(.endSession, "\(id)", ticket: ticket)
        expect(response, equals: await subject.signOut(nil))
        expect(subject.journal.all.suffix(2), equals: ["end signed_out", "revoke canary-refresh-1"])
        expect(subject.observer.all.last, equals: .signOut(id))
        await expect(subject.whoAmI(ticket).problem?.reason, equals: .revoked)
    }

    @Test("Rule 24: ends all others, returns their number, and keeps the current session and those of other users")
    func endsOthers() async throws {
        let (ticket, current) = try await subject.session()
        var others: [SessionTicket: SessionID] = [:]
        for _ in 0..<3 {
            let (ticket, session) = try await subject.session()
            others[ticket] = session.id
        }
        let (foreign, _) = try await subject.session(of: other)
        let response = await subject.sessions(.endOtherSessions, ticket: ticket)
        expect(response, equals: AccountResponse(status: 200, content: .json(Array(#"{"ended":3}"#.utf8))))
        for other in others.keys { await expect(subject.whoAmI(other).problem?.reason, equals: .revoked) }
        await expect(subject.whoAmI(ticket).status, equals: 200)
        await expect(subject.whoAmI(foreign).status, equals: 200)
        guard case .signOutOthers(let ended, current.id, .revoking) = subject.observer.all.last else {
            Issue.record("the observer was not called")
            return
        }
        expect(Set(ended), equals: Set(others.values))
        await expect(subject.sessions(.endOtherSessions, ticket: ticket).json, equals: #"{"ended":0}"#)
        expect(subject.observer.all.count, equals: 1)
    }

    @Test(
        "Rule 24: if the store fails halfway, the response is 503, and the sessions that have ended are in the audit log"
    )
    func halfway() async throws {
        let (ticket, current) = try await subject.session()
        let (_, old) = try await subject.session()
        subject.store.failAfterEnding()
        await expect(subject.sessions(.endOtherSessions, ticket: ticket).status, equals: 503)
        expect(subject.observer.all.first, equals: .signOutOthers([old.id], by: current.id, tokens: .revoking))
    }

    @Test("Rule 40: sessions that the store cannot open are not revoked upstream, and the event reports this")
    func sealed() async throws {
        let (ticket, current) = try await subject.session()
        let (_, old) = try await subject.session()
        subject.store.seal()
        await expect(subject.sessions(.endOtherSessions, ticket: ticket).json, equals: #"{"ended":1}"#)
        expect(subject.observer.all, equals: [.signOutOthers([old.id], by: current.id, tokens: .notRevokedSealed)])
        expect(!subject.journal.all.contains { $0.hasPrefix("revoke") })
    }

    /// Two accounts with user ids that signed in with the same typed name, sessions of that name without a user id, and
    /// one session of a look-alike name.
    private struct Mixed {
        let subject = AccountControllerFixture()
        let mine: (ticket: SessionTicket, session: Session)
        let typed: (ticket: SessionTicket, session: Session)
        let others: [(ticket: SessionTicket, session: Session)]

        init() async throws {
            let name = AccountName(email: "admin@example.com")
            let store = subject.store
            func signIn(id: String?, _ name: AccountName, after: Int64) async throws -> (SessionTicket, Session) {
                var new = NewSession(
                    user: AccountControllerFixture.signedIn("1").user,
                    tokens: AccountControllerFixture.signedIn("1").tokens)
                let account = id.map { AccountName(userID: $0, source: SessionSource(upstream: "api")) }
                new.user = UserProfile(json: new.user.json, account: account ?? name, name: name)
                return try await store.create(new, now: AccountControllerFixture.now + .seconds(after))
            }
            mine = try await signIn(id: "17", name, after: 0)
            typed = try await signIn(id: nil, name, after: 1)
            others = [
                try await signIn(id: "18", name, after: 2),
                try await signIn(id: nil, AccountName(email: "adm\u{131}n@example.com"), after: 3),
                try await signIn(id: nil, AccountName(email: "al@example.com"), after: 4),
            ]
        }

        func expectOthersGoOn() async {
            for other in others { await expect(subject.whoAmI(other.ticket).status, equals: 200) }
        }
    }

    @Test("Rule 35: the list includes only those sessions of the typed name that were created without a user id")
    func listsTyped() async throws {
        let all = try await Mixed()
        let json = try await require(all.subject.sessions(.listSessions, ticket: all.mine.ticket).json)
        let parts = json.components(separatedBy: #"{"id":""#).dropFirst().map { String($0.prefix(16)) }
        expect(parts, equals: ["\(all.typed.session.id)", "\(all.mine.session.id)"])
    }

    @Test("Rule 35: ending all others ends only those sessions of the typed name that were created without a user id")
    func endsTyped() async throws {
        let all = try await Mixed()
        await expect(all.subject.sessions(.endOtherSessions, ticket: all.mine.ticket).json, equals: #"{"ended":1}"#)
        await expect(all.subject.whoAmI(all.typed.ticket).problem?.reason, equals: .revoked)
        await expect(all.subject.whoAmI(all.mine.ticket).status, equals: 200)
        await all.expectOthersGoOn()
        expect(
            all.subject.observer.all,
            equals: [.signOutOthers([all.typed.session.id], by: all.mine.session.id, tokens: .revoking)])
    }

    @Test("Rule 35: ending one session by name reaches sessions of the typed name without a user id, and no others")
    func endsOneTyped() async throws {
        let all = try await Mixed()
        for other in all.others {
            let response = await all.subject.sessions(.endSession, "\(other.session.id)", ticket: all.mine.ticket)
            expect(response.problem, equals: Problem(.notFound))
        }
        await all.expectOthersGoOn()
        let response = await all.subject.sessions(.endSession, "\(all.typed.session.id)", ticket: all.mine.ticket)
        expect(response.status, equals: 204)
        await expect(all.subject.whoAmI(all.typed.ticket).problem?.reason, equals: .revoked)
    }
}
