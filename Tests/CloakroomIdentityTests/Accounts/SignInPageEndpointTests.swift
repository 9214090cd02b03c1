import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("Sign-in with the page")
struct SignInPageEndpointTests {
    private let now = AccountControllerFixture.now

    private func subject(
        _ persistence: CookieConfiguration.Persistence = .never, messages: [ProblemCode: String] = [:]
    ) throws -> AccountControllerFixture {
        let configuration = try SignInPageTests.configuration(persistence: persistence, messages: messages)
        return AccountControllerFixture(
            messages: messages, cookie: configuration.session.cookie, page: SignInPageTests.page(configuration))
    }

    private func open(_ subject: AccountControllerFixture, ticket: SessionTicket? = nil) async -> AccountResponse {
        await subject.endpoints.respond(
            AccountRequest(
                endpoint: .page, query: Array("returnTo=%2Fvideos%2F1".utf8), ticket: ticket, now: now,
                origin: AuditContext(requestID: "0123")))
    }

    private func send(
        _ subject: AccountControllerFixture, _ form: String = "email=jo%40example.com&password=canary-password",
        type: String = "application/x-www-form-urlencoded", authorization: String? = nil, ticket: SessionTicket? = nil
    ) async -> AccountResponse {
        await subject.endpoints.respond(
            AccountRequest(
                endpoint: .pageSignIn, query: Array("returnTo=%2Fvideos%2F1".utf8), ticket: ticket,
                authorization: authorization.map { Secret($0) }, contentType: type, body: Secret(form), now: now,
                origin: AuditContext(peer: "192.0.2.1")))
    }

    @Test("continues at the requested place, with a new session and without a body")
    func success() async throws {
        let subject = try subject()
        let response = await send(subject)
        expect(response.status, equals: 303)
        expect(response.values(of: "Location"), equals: ["/videos/1"])
        expect(response.content, equals: .none)
        let ticket = try require(response.ticket)
        await expect(subject.whoAmI(ticket).status, equals: 200)
    }

    @Test("ends the session that the browser had")
    func replaces() async throws {
        let subject = try subject()
        let (old, _) = try await subject.session()
        let response = await send(subject, ticket: old)
        await expect(subject.whoAmI(old).status, equals: 401)
        let ticket = try require(response.ticket)
        await expect(subject.whoAmI(ticket).status, equals: 200)
    }

    @Test("shows the page again after a failure, with the configured sentence and without a cookie")
    func failure() async throws {
        let subject = try subject(messages: [.unauthorized: "Wrong password."])
        subject.client.response(.failure(TokenClientError(.rejected, in: .signIn)))
        let (ticket, _) = try await subject.session()
        let response = await send(subject, ticket: ticket)
        expect(response.status, equals: 401)
        try expect(require(response.html).contains("autofocus>Wrong password.</p>"))
        try expect(require(response.html).contains("value=\"jo@example.com\""))
        expect(response.values(of: "Set-Cookie"), equals: [])
        await expect(subject.whoAmI(ticket).status, equals: 200)
    }

    @Test("counts its attempts together with those of programs, and shows the wait")
    func throttled() async throws {
        let subject = try subject()
        subject.client.response(.failure(TokenClientError(.rejected, in: .signIn)))
        for _ in 0..<3 { await expect(send(subject).status, equals: 401) }
        for _ in 0..<2 { await expect(subject.signIn().status, equals: 401) }
        let response = await send(subject)
        expect(response.status, equals: 429)
        expect(response.values(of: "Retry-After"), equals: ["1"])
        try expect(require(response.html).contains("Try again in 1 second."))
    }

    @Test(
        "rejects what is no form of the page with a message on the page",
        arguments: [
            ("text/plain", "email=a", 415), ("application/x-www-form-urlencoded", "email=%", 400),
            ("application/x-www-form-urlencoded", "", 422),
            ("application/x-www-form-urlencoded", "email=jo%40example.com&password=", 422),
            ("application/x-www-form-urlencoded", "email=jo%40example.com&email=a&password=b", 400),
        ])
    func malformed(type: String, body: String, status: Int) async throws {
        let subject = try subject()
        let response = await send(subject, body, type: type)
        expect(response.status, equals: status)
        try expect(require(response.html).contains("role=\"alert\""))
        expect(subject.journal.all, equals: [])
    }

    @Test("ignores Authorization, which a browser may add by itself")
    func basic() async throws {
        let subject = try subject()
        // jo@example.com:x
        let response = await send(subject, "", authorization: "Basic am9AZXhhbXBsZS5jb206eA==")
        expect(response.status, equals: 422)
        expect(subject.journal.all, equals: [])
    }

    @Test("The page of a browser with a session links to where it continues")
    func signedIn() async throws {
        let subject = try subject()
        let (ticket, _) = try await subject.session()
        let note = "You are signed in. <a href=\"/videos/1\">Continue</a>"
        try await expect(require(open(subject, ticket: ticket).html).contains(note))
        var generator = SystemRandomNumberGenerator()
        for response in [await open(subject), await open(subject, ticket: SessionTicket(using: &generator))] {
            expect(response.status, equals: 200)
            try expect(!require(response.html).contains("You are signed in"))
        }
    }

    @Test("The page has the message of an unavailable store if the browser may have a session")
    func storeDown() async throws {
        let subject = try subject()
        let (ticket, _) = try await subject.session()
        subject.store.becomeRemote()
        subject.store.fail(.load, .unavailable)
        let response = await open(subject, ticket: ticket)
        expect(response.status, equals: 503)
        expect(response.values(of: "Retry-After"), equals: ["5"])
        try expect(require(response.html).contains("Sessions are not available at the moment."))
        try expect(require(response.html).contains("<p>Request ID: 0123</p>"))
        // Without a ticket no session is searched.
        await expect(open(subject).status, equals: 200)
    }

    @Test("A gateway without a page has neither")
    func withoutPage() async {
        let subject = AccountControllerFixture()
        await expect(open(subject).status, equals: 404)
        await expect(send(subject).status, equals: 404)
    }

    // MARK: - Persistent cookies

    private func maxAge(_ response: AccountResponse) throws -> Int? {
        let value = try require(response.values(of: "Set-Cookie").first)
        return try value.split(separator: "; ").first { $0.hasPrefix("Max-Age=") }
            .map { try require(Int($0.dropFirst("Max-Age=".count))) }
    }

    @Test("A cookie is persistent if the form or the member requests it, where that is configured")
    func onRequest() async throws {
        let subject = try subject(.onRequest)
        let form = "email=jo%40example.com&password=x"
        let limit = 8 * 3_600
        for (response, isPersistent) in [
            (await send(subject, form), false), (await send(subject, form + "&persistent=on"), true),
            (await send(subject, form + "&persistent=off"), false),
            (await subject.signIn(#"{"email":"jo@example.com","password":"x","persistent":true}"#), true),
            (await subject.signIn(#"{"email":"jo@example.com","password":"x","persistent":false}"#), false),
            (await subject.signIn(#"{"email":"jo@example.com","password":"x","persistent":"on"}"#), false),
            (await subject.signIn(), false),
        ] {
            let age = try maxAge(response)
            expect(age != nil, equals: isPersistent)
            // The time that the sign-in took is subtracted.
            if let age { expect((limit - 60...limit).contains(age)) }
        }
    }

    @Test("Otherwise the request changes nothing", arguments: [CookieConfiguration.Persistence.never, .always])
    func fixed(persistence: CookieConfiguration.Persistence) async throws {
        let subject = try subject(persistence)
        for more in ["", "&persistent=on"] {
            let response = await send(subject, "email=jo%40example.com&password=x" + more)
            expect(try maxAge(response) != nil, equals: persistence == .always)
        }
    }
}
