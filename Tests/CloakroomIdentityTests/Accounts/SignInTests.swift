import CloakroomIdentity
import Testing

@testable import CloakroomCore

@Suite("POST to the accounts prefix")
struct SignInTests {
    private let subject = AccountControllerFixture()

    private let accountHash = AccountName(email: "jo@example.com").hash(under: Upstreams.accountKey)

    @Test("signs in: the user as the upstream returns it, the times, a session cookie for the browser")
    func success() async throws {
        let response = await subject.signIn()
        #expect(response.status == 200)
        let session =
            #"{"createdAt":"2023-11-14T22:13:20Z","expiresAt":"2023-11-15T06:13:20Z","idleTimeoutSeconds":900}"#
        #expect(response.json == #"{"user":\#(AccountControllerFixture.userJSON),"session":\#(session)}"#)
        let ticket = try #require(response.ticket)
        #expect(
            response.values(of: "Set-Cookie") == [
                "__Host-cloakroom=\(ticket.cookieValue); Path=/; HttpOnly; Secure; SameSite=Strict"
            ])
        #expect(response.fields.count == 1)
        #expect(subject.observer.all == [.signIn(outcome: .success, accountHash: accountHash, duration: .zero)])
        #expect(subject.client.traceparents == ["00-trace"])
        #expect(await subject.whoAmI(ticket).status == 200)
    }

    @Test("Rule 137: a sign-in that names an app gets its timeouts; an unknown app is 404 before any attempt")
    func app() async throws {
        var app = AppConfiguration(name: "shop")
        (app.idleTimeout, app.absoluteTimeout) = (.seconds(7_200), .seconds(86_400))
        let subject = AccountControllerFixture(apps: [app])
        func signIn(_ app: String) async -> AccountResponse {
            await subject.signIn(#"{"email":"jo@example.com","password":"canary-password","app":\#(app)}"#)
        }
        for other in [#""web""#, "1", "null"] { #expect(await signIn(other).problem?.code == .notFound) }
        #expect(subject.client.traceparents.isEmpty)
        let times = #""expiresAt":"2023-11-15T22:13:20Z","idleTimeoutSeconds":7200}}"#
        #expect(await signIn(#""shop""#).json?.hasSuffix(times) == true)
        let usual = #""expiresAt":"2023-11-15T06:13:20Z","idleTimeoutSeconds":900}}"#
        #expect(await subject.signIn().json?.hasSuffix(usual) == true)
    }

    @Test("Rule 9: signing in with a planted cookie does not keep its ticket")
    func plantedCookie() async throws {
        var generator = SystemRandomNumberGenerator()
        let planted = SessionTicket(using: &generator)
        let ticket = try #require(await subject.signIn(ticket: planted).ticket)
        #expect(ticket != planted)
        #expect(await subject.whoAmI(planted).problem?.reason == .noSession)
        #expect(await subject.whoAmI(ticket).status == 200)
    }

    @Test("ends the oldest session of an account at its limit, without a list, and no session of other accounts")
    func makesRoom() async throws {
        let subject = AccountControllerFixture(maxSessionsPerAccount: 3)
        let (strangers, _) = try await subject.session(of: AccountName(email: "mia@example.com"))
        var tickets: [SessionTicket] = []
        for minute in 0..<5 {
            let now = AccountControllerFixture.now + .seconds(60 * Int64(minute))
            tickets.append(try #require(await subject.signIn(at: now).ticket))
        }
        for (index, ticket) in tickets.enumerated() {
            #expect(await subject.whoAmI(ticket).status == (index < 2 ? 401 : 200), "\(index)")
        }
        #expect(await subject.whoAmI(strangers).status == 200)
        #expect(subject.store.count == 4)
        #expect(subject.store.listCount == 0)
        // Not for the first three.
        #expect(subject.store.evictionCount == 2)
    }

    @Test("succeeds if the oldest session cannot be ended; the next sign-in ends it")
    func triesAgain() async throws {
        let subject = AccountControllerFixture(maxSessionsPerAccount: 1)
        _ = try await subject.ticket()
        subject.store.fail(.end, .unavailable)
        #expect(await subject.signIn(at: AccountControllerFixture.now + .seconds(60)).status == 200)
        #expect(subject.store.count == 2)
        subject.store.recover(.end)
        #expect(await subject.signIn(at: AccountControllerFixture.now + .seconds(120)).status == 200)
        #expect(subject.store.count == 1)
    }

    @Test("Rule 9: signing in again creates a session first, then ends the presented one and revokes its tokens")
    func replaces() async throws {
        let old = try await subject.ticket()
        subject.client.response(.success(AccountControllerFixture.signedIn("2")))
        let new = try #require(await subject.signIn(ticket: old).ticket)
        #expect(new != old)
        #expect(await subject.whoAmI(old).problem?.reason == .revoked)
        #expect(await subject.whoAmI(new).status == 200)
        #expect(
            subject.journal.all == [
                "signIn jo@example.com", "create", "signIn jo@example.com", "create", "end replaced",
                "revoke canary-refresh-1",
            ])
    }

    @Test("Rule 9: signing in with several session cookies ends each of their sessions")
    func replacesAll() async throws {
        let old = [try await subject.ticket(), try await subject.ticket()]
        let new = try #require(await subject.respond(.signIn, ambiguous: old).ticket)
        for ticket in old { #expect(await subject.whoAmI(ticket).problem?.reason == .revoked) }
        #expect(await subject.whoAmI(new).status == 200)
        #expect(subject.journal.all.suffix(2) == ["revoke canary-refresh-1", "revoke canary-refresh-1"])
    }

    @Test("succeeds if the tokens of the replaced session cannot be revoked, and reports this to the operator")
    func replacedRevokeFails() async throws {
        let old = try await subject.ticket()
        let id = try subject.id(of: old)
        subject.client.failRevoke(.timedOut)
        #expect(await subject.signIn(ticket: old).status == 200)
        #expect(subject.observer.all.last == .revokeFailed(id))
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
        #expect(response.values(of: "Set-Cookie").isEmpty)
        #expect(await subject.whoAmI(old).status == 200)
        #expect(await subject.signIn("{", ticket: old).status == 400)
        #expect(await subject.whoAmI(old).status == 200)
    }

    @Test("reports a wrong password if the upstream rejects it")
    func rejected() async throws {
        subject.client.response(.failure(TokenClientError(.rejected, in: .signIn)))
        let problem = await subject.signIn().problem
        #expect(
            problem
                == Problem(
                    .unauthorized, detail: "The email/password combination is invalid.", reason: .invalidCredentials))
        #expect(subject.observer.all == [.signIn(outcome: .rejected, accountHash: accountHash, duration: .zero)])
        #expect(subject.journal.all == ["signIn jo@example.com"])
    }

    @Test(
        "maps each upstream failure to its response",
        arguments: [
            (.unreachable, 502, .unreachable), (.timedOut, 504, .unreachable),
            (.invalidResponse, 502, .invalidResponse), (.busy, 502, .unreachable),
        ] as [(TokenClientError.Kind, Int, ProblemCode)])
    func upstreamFailures(kind: TokenClientError.Kind, status: Int, code: ProblemCode) async {
        subject.client.response(.failure(TokenClientError(kind, in: .user)))
        #expect(await subject.signIn().problem == Problem(code, status: status))
        #expect(subject.observer.all == [.signIn(outcome: .upstreamError, accountHash: accountHash, duration: .zero)])
    }

    @Test(
        "reports a misconfiguration to the client and the operator, never as a wrong password",
        arguments: IdentityMisconfiguration.allCases)
    func misconfigured(reason: IdentityMisconfiguration) async {
        subject.client.response(.failure(TokenClientError(.misconfigured(reason), in: .signIn)))
        #expect(await subject.signIn().problem == Problem(.identityMisconfigured, status: 502))
        #expect(
            subject.observer.all == [
                .identityMisconfigured(reason, in: .signIn, of: nil),
                .signIn(outcome: .misconfigured, accountHash: accountHash, duration: .zero),
            ])
    }

    @Test("Rule 31: rejects a body of nested brackets immediately, and the following ones too")
    func nestedBody() async {
        let body = String(repeating: "[", count: 512) + String(repeating: "]", count: 512)
        let time = await ContinuousClock().measure {
            for _ in 0..<40 { #expect(await subject.signIn(body).problem == Problem(.badRequest)) }
        }
        // A parser that tries each type at each level takes more than 1 s for one of these bodies.
        #expect(time < .seconds(2))
        #expect(subject.journal.all.isEmpty)
    }

    @Test("uses the problem sentences of the configuration")
    func messages() async {
        let subject = AccountControllerFixture(messages: [
            .unauthorized: "Wrong.", .unreachable: "Away.", .invalidInput: "Check it.",
        ])
        #expect(await subject.signIn("{}").problem?.detail == "Check it.")
        subject.client.response(.failure(TokenClientError(.rejected, in: .signIn)))
        #expect(await subject.signIn().problem?.detail == "Wrong.")
        subject.client.response(.failure(TokenClientError(.timedOut, in: .signIn)))
        #expect(await subject.signIn().problem?.detail == "Away.")
        #expect(await subject.whoAmI(nil).problem?.detail == ProblemCode.unauthorized.defaultDetail)
    }

    @Test(
        "Rule 10: sends no request upstream for invalid credentials",
        arguments: [
            ("{", 400, .badRequest), (#"{"email":"jo@a.com@b.com","password":"x"}"#, 422, .invalidInput),
            (#"{"email":"jo@example.com","password":""}"#, 422, .invalidInput), ("", 422, .invalidInput),
        ] as [(String, Int, ProblemCode)])
    func invalid(body: String, status: Int, code: ProblemCode) async {
        #expect(await subject.signIn(body).problem == Problem(code, status: status))
        #expect(subject.journal.all.isEmpty)
        #expect(subject.observer.all == [.signIn(outcome: .invalid, accountHash: nil, duration: .zero)])
    }

    @Test("responds with 415 to a body of another type")
    func otherType() async {
        let request = AccountRequest(
            endpoint: .signIn, contentType: "text/plain", body: Secret("x"), now: AccountControllerFixture.now)
        #expect(await subject.endpoints.respond(request).problem == Problem(.unsupportedMediaType))
    }

    @Test(
        "revokes the new tokens if the session store is full or unavailable",
        arguments: [(.full, .overloaded), (.unavailable, .storeUnavailable)] as [(SessionStoreError.Kind, ProblemCode)])
    func storeFails(kind: SessionStoreError.Kind, code: ProblemCode) async throws {
        let old = try await subject.ticket()
        subject.store.fail(.create, kind)
        subject.client.response(.success(AccountControllerFixture.signedIn("2")))
        let response = await subject.signIn(ticket: old)
        #expect(response.problem == Problem(code, status: 503, retryAfter: 5))
        #expect(response.values(of: "Set-Cookie").isEmpty)
        #expect(subject.journal.all.last == "revoke canary-refresh-2")
        #expect(subject.observer.all.last == .signIn(outcome: .storeError, accountHash: accountHash, duration: .zero))
        #expect(await subject.whoAmI(old).status == 200)
    }

    @Test("Rule 9: does not sign in if the presented session cannot be ended")
    func presentedCannotEnd() async throws {
        let old = try await subject.ticket()
        subject.store.fail(.end, .unavailable)
        let response = await subject.signIn(ticket: old)
        #expect(response.problem?.code == .storeUnavailable)
        #expect(response.ticket == nil)
    }

    @Test("omits Secure if the configuration does")
    func insecureCookie() async throws {
        let subject = AccountControllerFixture(
            cookie: CookieConfiguration(name: "sid", isSecure: false, sameSite: .lax))
        let response = await subject.signIn()
        let ticket = try #require(response.ticket)
        #expect(response.values(of: "Set-Cookie") == ["sid=\(ticket.cookieValue); Path=/; HttpOnly; SameSite=Lax"])
    }
}
