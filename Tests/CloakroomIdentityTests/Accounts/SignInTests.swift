import CloakroomIdentity
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("POST to the accounts prefix")
struct SignInTests {
    private let subject = AccountControllerFixture()

    private let accountHash = AccountName(email: "jo@example.com").hash(under: Upstreams.accountKey)

    @Test("signs in: the user as the upstream returns it, the times, a session cookie for the browser")
    func success() async throws {
        let response = await subject.signIn()
        expect(response.status, equals: 200)
        let session =
            #"{"createdAt":"2023-11-14T22:13:20Z","expiresAt":"2023-11-15T06:13:20Z","idleTimeoutSeconds":900}"#
        expect(response.json, equals: #"{"user":\#(AccountControllerFixture.userJSON),"session":\#(session)}"#)
        let ticket = try require(response.ticket)
        expect(
            response.values(of: "Set-Cookie"),
            equals: [
                "__Host-cloakroom=\(ticket.cookieValue); Path=/; HttpOnly; Secure; SameSite=Strict"
            ])
        expect(response.fields.count, equals: 1)
        expect(subject.observer.all, equals: [.signIn(outcome: .success, accountHash: accountHash, duration: .zero)])
        expect(subject.client.traceparents, equals: ["00-trace"])
        await expect(subject.whoAmI(ticket).status, equals: 200)
    }

    @Test("Rule 137: a sign-in that names an app gets its timeouts; an unknown app is 404 before any attempt")
    func app() async throws {
        var app = AppConfiguration(name: "shop")
        (app.idleTimeout, app.absoluteTimeout) = (.seconds(7_200), .seconds(86_400))
        let subject = AccountControllerFixture(apps: [app])
        func signIn(_ app: String) async -> AccountResponse {
            await subject.signIn(#"{"email":"jo@example.com","password":"canary-password","app":\#(app)}"#)
        }
        for other in [#""web""#, "1", "null"] { await expect(signIn(other).problem?.code, equals: .notFound) }
        expect(empty: subject.client.traceparents)
        let times = #""expiresAt":"2023-11-15T22:13:20Z","idleTimeoutSeconds":7200}}"#
        await expect(signIn(#""shop""#).json?.hasSuffix(times), equals: true)
        let usual = #""expiresAt":"2023-11-15T06:13:20Z","idleTimeoutSeconds":900}}"#
        await expect(subject.signIn().json?.hasSuffix(usual), equals: true)
    }

    @Test("Rule 9: signing in with a planted cookie does not keep its ticket")
    func plantedCookie() async throws {
        var generator = SystemRandomNumberGenerator()
        let planted = SessionTicket(using: &generator)
        let ticket = try await require(subject.signIn(ticket: planted).ticket)
        expect(ticket != planted)
        await expect(subject.whoAmI(planted).problem?.reason, equals: .noSession)
        await expect(subject.whoAmI(ticket).status, equals: 200)
    }

    @Test("ends the oldest session of an account at its limit, without a list, and no session of other accounts")
    func makesRoom() async throws {
        let subject = AccountControllerFixture(maxSessionsPerAccount: 3)
        let (strangers, _) = try await subject.session(of: AccountName(email: "mia@example.com"))
        var tickets: [SessionTicket] = []
        for minute in 0..<5 {
            let now = AccountControllerFixture.now + .seconds(60 * Int64(minute))
            tickets.append(try await require(subject.signIn(at: now).ticket))
        }
        for (index, ticket) in tickets.enumerated() {
            await expect(subject.whoAmI(ticket).status, equals: (index < 2 ? 401 : 200), "\(index)")
        }
        await expect(subject.whoAmI(strangers).status, equals: 200)
        expect(subject.store.count, equals: 4)
        expect(subject.store.listCount, equals: 0)
        // Not for the first three.
        expect(subject.store.evictionCount, equals: 2)
    }

    @Test("succeeds if the oldest session cannot be ended; the next sign-in ends it")
    func triesAgain() async throws {
        let subject = AccountControllerFixture(maxSessionsPerAccount: 1)
        _ = try await subject.ticket()
        subject.store.fail(.end, .unavailable)
        await expect(subject.signIn(at: AccountControllerFixture.now + .seconds(60)).status, equals: 200)
        expect(subject.store.count, equals: 2)
        subject.store.recover(.end)
        await expect(subject.signIn(at: AccountControllerFixture.now + .seconds(120)).status, equals: 200)
        expect(subject.store.count, equals: 1)
    }

    @Test("Rule 9: signing in again creates a session first, then ends the presented one and revokes its tokens")
    func replaces() async throws {
        let old = try await subject.ticket()
        subject.client.response(.success(AccountControllerFixture.signedIn("2")))
        let new = try await require(subject.signIn(ticket: old).ticket)
        expect(new != old)
        await expect(subject.whoAmI(old).problem?.reason, equals: .revoked)
        await expect(subject.whoAmI(new).status, equals: 200)
        expect(
            subject.journal.all,
            equals: [
                "signIn jo@example.com", "create", "signIn jo@example.com", "create", "end replaced",
                "revoke canary-refresh-1",
            ])
    }

    @Test("Rule 9: signing in with several session cookies ends each of their sessions")
    func replacesAll() async throws {
        let old = [try await subject.ticket(), try await subject.ticket()]
        let new = try await require(subject.respond(.signIn, ambiguous: old).ticket)
        for ticket in old { await expect(subject.whoAmI(ticket).problem?.reason, equals: .revoked) }
        await expect(subject.whoAmI(new).status, equals: 200)
        expect(subject.journal.all.suffix(2), equals: ["revoke canary-refresh-1", "revoke canary-refresh-1"])
    }

    @Test("succeeds if the tokens of the replaced session cannot be revoked, and reports this to the operator")
    func replacedRevokeFails() async throws {
        let old = try await subject.ticket()
        let id = try subject.id(of: old)
        subject.client.failRevoke(.timedOut)
        await expect(subject.signIn(ticket: old).status, equals: 200)
        expect(subject.observer.all.last, equals: .revokeFailed(id))
    }

    @Test(
        "leaves the presented session unchanged if it fails",
        arguments: [
            TokenClientError.Kind.rejected, .unreachable, .timedOut, .invalidResponse, .busy,
            .misconfigured(.invalidClient),
        ])
    func failureKeepsSession(kind: TokenClientError.Kind) async throws {
        let old = try await subject.ticket()
        subject.client.response(.failure(TokenClientError(kind, in: .signIn)))
        let response = await subject.signIn(ticket: old)
        #expect(response.status >= 400)
        expect(empty: response.values(of: "Set-Cookie"))
        await expect(subject.whoAmI(old).status, equals: 200)
        await expect(subject.signIn("{", ticket: old).status, equals: 400)
        await expect(subject.whoAmI(old).status, equals: 200)
    }

    @Test("reports a wrong password if the upstream rejects it")
    func rejected() async throws {
        subject.client.response(.failure(TokenClientError(.rejected, in: .signIn)))
        let problem = await subject.signIn().problem
        expect(
            problem,
            equals: Problem(
                .unauthorized, detail: "The email/password combination is invalid.", reason: .invalidCredentials))
        expect(subject.observer.all, equals: [.signIn(outcome: .rejected, accountHash: accountHash, duration: .zero)])
        expect(subject.journal.all, equals: ["signIn jo@example.com"])
    }

    @Test(
        "maps each upstream failure to its response",
        arguments: [
            (.unreachable, 502, .unreachable), (.timedOut, 504, .unreachable),
            (.invalidResponse, 502, .invalidResponse), (.busy, 502, .unreachable),
        ] as [(TokenClientError.Kind, Int, ProblemCode)])
    func upstreamFailures(kind: TokenClientError.Kind, status: Int, code: ProblemCode) async {
        subject.client.response(.failure(TokenClientError(kind, in: .user)))
        await expect(subject.signIn().problem, equals: Problem(code, status: status))
        expect(
            subject.observer.all, equals: [.signIn(outcome: .upstreamError, accountHash: accountHash, duration: .zero)])
    }

    @Test(
        "reports a misconfiguration to the client and the operator, never as a wrong password",
        arguments: IdentityMisconfiguration.allCases)
    func misconfigured(reason: IdentityMisconfiguration) async {
        subject.client.response(.failure(TokenClientError(.misconfigured(reason), in: .signIn)))
        await expect(subject.signIn().problem, equals: Problem(.identityMisconfigured, status: 502))
        expect(
            subject.observer.all,
            equals: [
                .identityMisconfigured(reason, in: .signIn, of: nil),
                .signIn(outcome: .misconfigured, accountHash: accountHash, duration: .zero),
            ])
    }

    @Test("Rule 31: rejects a body of nested brackets immediately, and the following ones too")
    func nestedBody() async {
        let body = String(repeating: "[", count: 512) + String(repeating: "]", count: 512)
        let time = await ContinuousClock().measure {
            for _ in 0..<40 { await expect(subject.signIn(body).problem, equals: Problem(.badRequest)) }
        }
        // A parser that tries each type at each level takes more than 1 s for one of these bodies.
        #expect(time < .seconds(2))
        expect(empty: subject.journal.all)
    }

    @Test("uses the problem sentences of the configuration")
    func messages() async {
        let subject = AccountControllerFixture(messages: [
            .unauthorized: "Wrong.", .unreachable: "Away.", .invalidInput: "Check it.",
        ])
        await expect(subject.signIn("{}").problem?.detail, equals: "Check it.")
        subject.client.response(.failure(TokenClientError(.rejected, in: .signIn)))
        await expect(subject.signIn().problem?.detail, equals: "Wrong.")
        subject.client.response(.failure(TokenClientError(.timedOut, in: .signIn)))
        await expect(subject.signIn().problem?.detail, equals: "Away.")
        await expect(subject.whoAmI(nil).problem?.detail, equals: ProblemCode.unauthorized.defaultDetail)
    }

    @Test(
        "Rule 10: sends no request upstream for invalid credentials",
        arguments: [
            ("{", 400, .badRequest), (#"{"email":"jo@a.com@b.com","password":"x"}"#, 422, .invalidInput),
            (#"{"email":"jo@example.com","password":""}"#, 422, .invalidInput), ("", 422, .invalidInput),
        ] as [(String, Int, ProblemCode)])
    func invalid(body: String, status: Int, code: ProblemCode) async {
        await expect(subject.signIn(body).problem, equals: Problem(code, status: status))
        expect(empty: subject.journal.all)
        expect(subject.observer.all, equals: [.signIn(outcome: .invalid, accountHash: nil, duration: .zero)])
    }

    @Test("responds with 415 to a body of another type")
    func otherType() async {
        let request = AccountRequest(
            endpoint: .signIn, contentType: "text/plain", body: Secret("x"), now: AccountControllerFixture.now)
        await expect(subject.endpoints.respond(request).problem, equals: Problem(.unsupportedMediaType))
    }

    @Test(
        "revokes the new tokens if the session store is full or unavailable",
        arguments: [(.full, .overloaded), (.unavailable, .storeUnavailable)] as [(SessionStoreError.Kind, ProblemCode)])
    func storeFails(kind: SessionStoreError.Kind, code: ProblemCode) async throws {
        let old = try await subject.ticket()
        subject.store.fail(.create, kind)
        subject.client.response(.success(AccountControllerFixture.signedIn("2")))
        let response = await subject.signIn(ticket: old)
        expect(response.problem, equals: Problem(code, status: 503, retryAfter: 5))
        expect(empty: response.values(of: "Set-Cookie"))
        expect(subject.journal.all.last, equals: "revoke canary-refresh-2")
        expect(
            subject.observer.all.last, equals: .signIn(outcome: .storeError, accountHash: accountHash, duration: .zero))
        await expect(subject.whoAmI(old).status, equals: 200)
    }

    @Test("Rule 9: does not sign in if the presented session cannot be ended")
    func presentedCannotEnd() async throws {
        let old = try await subject.ticket()
        subject.store.fail(.end, .unavailable)
        let response = await subject.signIn(ticket: old)
        expect(response.problem?.code, equals: .storeUnavailable)
        expect(response.ticket, equals: nil)
    }

    @Test("omits Secure if the configuration does")
    func insecureCookie() async throws {
        let subject = AccountControllerFixture(
            cookie: CookieConfiguration(name: "sid", isSecure: false, sameSite: .lax))
        let response = await subject.signIn()
        let ticket = try require(response.ticket)
        expect(response.values(of: "Set-Cookie"), equals: ["sid=\(ticket.cookieValue); Path=/; HttpOnly; SameSite=Lax"])
    }
}
