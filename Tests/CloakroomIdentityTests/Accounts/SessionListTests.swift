import CloakroomCore
import CloakroomIdentity
import FoundationEssentials
import TestSupport
import Testing

@Suite("GET of sessions under the accounts prefix")
struct SessionListTests {
    private let subject = AccountControllerFixture()

    private struct Document: Decodable {
        struct Entry: Decodable {
            let id: String
            let createdAt: String
            let lastUsedAt: String
            let expiresAt: String
            let address: String
            let userAgent: String
            let current: Bool
        }

        let sessions: [Entry]
    }

    private func document(_ response: AccountResponse) throws -> Document {
        try JSONDecoder().decode(Document.self, from: Data(try require(response.json).utf8))
    }

    @Test("lists the user's own sessions, the latest first, and marks the current one")
    func lists() async throws {
        let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"
        let ticket = try await require(subject.signIn(from: "192.0.2.7", userAgent: firefox).ticket)
        let (_, later) = try await subject.session(
            from: SessionClientInfo(peer: "2001:db8::1", userAgent: .curl),
            at: AccountControllerFixture.now + .seconds(60))
        _ = try await subject.session(of: AccountName(email: "al@example.com"))
        let response = await subject.sessions(
            .listSessions, ticket: ticket, at: AccountControllerFixture.now + .seconds(90))
        expect(response.status, equals: 200)
        expect(empty: response.fields)
        let id = try subject.id(of: ticket)
        let first =
            #"{"id":"\#(later.id)","createdAt":"2023-11-14T22:14:20Z","lastUsedAt":"2023-11-14T22:14:20Z","#
            + #""expiresAt":"2023-11-15T06:14:20Z","address":"2001:db8::1","userAgent":"curl","#
            + #""current":false,"bound":false}"#
        let second =
            #"{"id":"\#(id)","createdAt":"2023-11-14T22:13:20Z","lastUsedAt":"2023-11-14T22:13:20Z","#
            + #""expiresAt":"2023-11-15T06:13:20Z","address":"192.0.2.7","userAgent":"Firefox","#
            + #""current":true,"bound":false}"#
        expect(response.json, equals: #"{"sessions":[\#(first),\#(second)]}"#)
    }

    @Test("names the app of a session, and only that")
    func app() async throws {
        let (ticket, _) = try await subject.session(from: SessionClientInfo(app: "shop"))
        let json = await subject.sessions(.listSessions, ticket: ticket).json
        expect(json?.hasSuffix(#","current":true,"bound":false,"app":"shop"}]}"#), equals: true)
    }

    @Test("never extends the idle timeout, and neither do the other requests")
    func doesNotSlide() async throws {
        let (ticket, session) = try await subject.session()
        for endpoint in [AccountEndpoint.currentSession, .listSessions, .endOtherSessions, .endSession] {
            let later = AccountControllerFixture.now + .seconds(600)
            _ = await subject.sessions(endpoint, "0000000000000000", ticket: ticket, at: later)
        }
        expect(session.lastUsedAt, equals: AccountControllerFixture.now)
    }

    @Test("is valid JSON for any contents of a session")
    func escaping() async throws {
        let peer = "\"},\\\u{0}\r\n\u{1f}\u{7f}</script>\u{2028}é"
        let (ticket, _) = try await subject.session(from: SessionClientInfo(peer: peer))
        let document = try document(await subject.sessions(.listSessions, ticket: ticket))
        expect(document.sessions.map(\.address), equals: [peer])
    }

    @Test("Rules 18 and 22: neither the list nor its events contain a token, a ticket or a name")
    func canaries() async throws {
        let ticket = try await require(subject.signIn().ticket)
        let (other, session) = try await subject.session()
        let responses = [
            await subject.sessions(.listSessions, ticket: ticket),
            await subject.sessions(.endSession, "\(session.id)", ticket: ticket),
            await subject.sessions(.endOtherSessions, ticket: ticket),
            await subject.sessions(.listSessions, ticket: other),
        ]
        expect(responses.map(\.status), equals: [200, 204, 200, 401])
        for text in responses.map(\.everything) + [String(reflecting: subject.observer.all)] {
            for secret in ["canary", "jo@example.com", ticket.cookieValue, other.cookieValue] {
                expect(!text.contains(secret))
            }
        }
    }

    @Test(
        "Without an active session all three are 401 with the reason, and keep the cookie",
        arguments: [AccountEndpoint.listSessions, .endOtherSessions, .endSession])
    func unauthorized(endpoint: AccountEndpoint) async throws {
        let (ticket, session) = try await subject.session()
        let none = await subject.sessions(endpoint, "\(session.id)", ticket: nil)
        expect(none, equals: AccountResponse(Problem(.unauthorized, reason: .noSession)))
        let late = AccountControllerFixture.now + .seconds(9 * 3_600)
        let expired = await subject.sessions(endpoint, "\(session.id)", ticket: ticket, at: late)
        expect(expired, equals: AccountResponse(Problem(.unauthorized, reason: .expiredAbsolute)))
        expect(empty: subject.observer.all)
    }

    @Test(
        "An unavailable store leads to 503 for all four, never to 401",
        arguments: [
            (.currentSession, .load), (.listSessions, .load), (.endOtherSessions, .load), (.endSession, .load),
            (.listSessions, .list), (.endOtherSessions, .endAll), (.endSession, .end),
        ] as [(AccountEndpoint, ScriptedStore.Operation)])
    func storeDown(endpoint: AccountEndpoint, operation: ScriptedStore.Operation) async throws {
        let (ticket, _) = try await subject.session()
        subject.store.becomeRemote()
        subject.store.fail(operation, .unavailable)
        let response = await subject.sessions(endpoint, "0123456789abcdef", ticket: ticket)
        expect(response, equals: AccountResponse(Problem(.storeUnavailable, retryAfter: 5)))
        expect(empty: subject.observer.all)
    }

    @Test("reads from the store if the session is not cached locally")
    func remote() async throws {
        let (ticket, _) = try await subject.session()
        subject.store.becomeRemote()
        try expect(
            document(await subject.sessions(.listSessions, ticket: ticket)).sessions.map(\.current), equals: [true])
    }
}
