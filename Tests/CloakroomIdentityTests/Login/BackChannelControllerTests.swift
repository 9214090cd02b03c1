import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("POST to backchannel below the accounts prefix")
struct BackChannelControllerTests {
    private let gateway: LoginEndpoints

    init() throws { gateway = try LoginEndpoints() }

    /// Signs a user in at the provider, in a browser of its own.
    private func newSession(
        subject: String = "jo", sid: String? = "sid-1", at now: WallTime = LoginFixture.now
    ) async throws -> SessionTicket {
        gateway.provider.state {
            $0.subject = subject
            $0.providerSession = sid
        }
        return try await gateway.newSession(at: now)
    }

    private func isActive(_ tickets: [SessionTicket]) async -> [Bool] {
        var active: [Bool] = []
        for ticket in tickets { active.append(await gateway.whoAmI(ticket).status == 200) }
        return active
    }

    @Test("Identity rule 20: ends the sessions of a sid, of all browsers, and no other")
    func session() async throws {
        let tickets = [
            try await newSession(), try await newSession(), try await newSession(sid: "sid-2"),
            try await newSession(sid: nil), try await newSession(subject: "al", sid: "sid-3"),
        ]
        gateway.provider.logout(.session(id: "sid-1", subject: nil))
        let response = await gateway.postLogout()
        expect(response, equals: AccountResponse(status: 200))
        await expect(isActive(tickets), equals: [false, false, true, true, true])
        expect(gateway.provider.tokens, equals: [Array("a.b.c".utf8)])
        guard case .providerLogout(let ended, identity: "company") = gateway.observer.all.last else {
            Issue.record("no event")
            return
        }
        expect(ended.count, equals: 2)
        // The provider knows what it has ended.
        expect(!gateway.journal.all.contains { $0.hasPrefix("revoke") })
    }

    @Test("Identity rule 20: with a sub, the session also has to belong to it")
    func sessionOfSubject() async throws {
        let ticket = try await newSession()
        gateway.provider.logout(.session(id: "sid-1", subject: "al"))
        await expect(gateway.postLogout().status, equals: 200)
        await expect(isActive([ticket]), equals: [true])
        gateway.provider.logout(.session(id: "sid-1", subject: "jo"), id: "jti-2")
        await expect(gateway.postLogout().status, equals: 200)
        await expect(isActive([ticket]), equals: [false])
    }

    @Test("Identity rule 20: with a sid and a sub, the user's earlier sessions without a sid end too")
    func sessionWithoutName() async throws {
        let now = LoginFixture.now
        let tickets = [
            try await newSession(sid: nil), try await newSession(sid: "sid-2"),
            try await newSession(subject: "al", sid: nil),
            try await newSession(sid: nil, at: now + .seconds(31)),
        ]
        gateway.provider.logout(.session(id: "sid-1", subject: "jo"))
        await expect(gateway.postLogout(at: now + .seconds(60)).status, equals: 200)
        await expect(isActive(tickets), equals: [false, true, true, true])
    }

    @Test("Identity rule 20: a sub alone ends the sessions from before iat, also if the provider's clock is behind")
    func subject() async throws {
        let now = LoginFixture.now
        let tickets = [
            try await newSession(sid: nil, at: now - .seconds(100)),
            try await newSession(sid: "sid-9", at: now + .milliseconds(30_999)),
            try await newSession(sid: nil, at: now + .milliseconds(31_000)),
            try await newSession(subject: "JO", sid: nil, at: now - .seconds(100)),
        ]
        gateway.provider.logout(.subject("jo"), at: now + .milliseconds(500))
        await expect(gateway.postLogout(at: now + .seconds(60)).status, equals: 200)
        await expect(isActive(tickets), equals: [false, false, true, true])
    }

    @Test("Identity rule 20: a user who signs in right after a logout arrived stays signed in, in the same second too")
    func sameSecond() async throws {
        let now = LoginFixture.now
        var tickets: [SessionTicket] = []
        for milliseconds in [400, 500, 501] {
            tickets.append(try await newSession(sid: nil, at: now + .milliseconds(milliseconds)))
        }
        gateway.provider.logout(.subject("jo"), at: now)
        await expect(gateway.postLogout(at: now + .milliseconds(500)).status, equals: 200)
        await expect(isActive(tickets), equals: [false, false, true])
    }

    @Test("Identity rule 20: the time of a session follows the clock of sessions, and iat the wall clock")
    func clocks() async throws {
        let ticket = try await newSession(sid: nil, at: LoginFixture.now + .seconds(50))
        gateway.provider.logout(.subject("jo"), at: LoginFixture.now + .seconds(2))
        // The wall clock was set back by a minute after the session was created.
        let request = AccountRequest(
            endpoint: .backChannel, contentType: "application/x-www-form-urlencoded", body: Secret("logout_token=a"),
            now: LoginFixture.now.sessionTime + .seconds(62), wallTime: LoginFixture.now + .seconds(2))
        await expect(gateway.endpoints.respond(request).status, equals: 200)
        await expect(isActive([ticket]), equals: [false])
    }

    @Test("Identity rule 20: a token that was processed does nothing again, and neither does one about an unknown user")
    func replay() async throws {
        gateway.provider.logout(.session(id: "sid-1", subject: nil))
        await expect(gateway.postLogout(), equals: AccountResponse(status: 200))
        expect(gateway.observer.all, equals: [.providerLogout([], identity: "company")])
        // The mark of the logout ends with the longest login.
        let later = LoginFixture.now + .seconds(661)
        await expect(gateway.postLogout(at: LoginFixture.now + .seconds(60)), equals: AccountResponse(status: 200))
        expect(gateway.observer.all.count, equals: 1)
        let ticket = try await newSession(at: later)
        await expect(isActive([ticket]), equals: [true])
        gateway.provider.logout(.session(id: "sid-1", subject: nil), id: "jti-2", at: later)
        await expect(gateway.postLogout(at: later).status, equals: 200)
        await expect(isActive([ticket]), equals: [false])
    }

    @Test(
        "Identity rule 20: if the store fails at any step, the response is 503, and the same token works when it is sent again",
        arguments: [ScriptedStore.Operation.mark, .endAll])
    func storeDown(operation: ScriptedStore.Operation) async throws {
        let ticket = try await newSession()
        gateway.provider.logout(.session(id: "sid-1", subject: nil))
        gateway.store.fail(operation, .unavailable)
        await expect(gateway.postLogout().problem, equals: Problem(.storeUnavailable, retryAfter: 5))
        expect(
            gateway.observer.all.last, equals: .providerLogoutFailed(identity: "company", reason: "store_unavailable"))
        await expect(isActive([ticket]), equals: [true])
        gateway.store.recover(operation)
        await expect(gateway.postLogout().status, equals: 200)
        await expect(isActive([ticket]), equals: [false])
    }

    @Test("Identity rule 20: if the store fails halfway, the sessions that have ended are in the audit log")
    func halfway() async throws {
        _ = try await newSession()
        gateway.provider.logout(.session(id: "sid-1", subject: nil))
        gateway.store.failAfterEnding()
        await expect(gateway.postLogout().status, equals: 503)
        let events = gateway.observer.all.suffix(2)
        guard case .providerLogout(let ended, identity: "company") = events.first else {
            Issue.record("no event")
            return
        }
        expect(ended.count, equals: 1)
        expect(events.last, equals: .providerLogoutFailed(identity: "company", reason: "store_unavailable"))
    }

    @Test(
        "A request without exactly one token in a form is 400, and is not verified",
        arguments: [
            ("", "application/x-www-form-urlencoded"), ("logout_token=", "application/x-www-form-urlencoded"),
            ("logout_token=a&logout_token=a", "application/x-www-form-urlencoded"),
            ("logout_token=a&x=1&x=2", "application/x-www-form-urlencoded"),
            ("logout_token=%", "application/x-www-form-urlencoded"),
            ("logout_token=%FF", "application/x-www-form-urlencoded"), ("x=a", "application/x-www-form-urlencoded"),
            ("LOGOUT_TOKEN=a", "application/x-www-form-urlencoded"), ("logout_token=a", "text/plain"),
            ("logout_token=a", nil), (#"{"logout_token":"a"}"#, "application/json"), ("logout_token=a", ""),
        ] as [(String, String?)])
    func malformed(body: String, contentType: String?) async throws {
        let response = await gateway.postLogout(body, contentType: contentType)
        expect(
            response, equals: AccountResponse(status: 400, content: .json(Array(#"{"error":"invalid_request"}"#.utf8))))
        expect(empty: gateway.provider.tokens)
        expect(gateway.observer.all, equals: [.providerLogoutFailed(identity: "company", reason: "malformed_request")])
    }

    @Test("Other parameters, and parameters of the media type, are ignored")
    func tolerant() async throws {
        gateway.provider.logout(.subject("jo"))
        let type = "Application/X-WWW-Form-Urlencoded; charset=utf-8"
        await expect(gateway.postLogout("x=1&logout_token=a.b.c&y", contentType: type).status, equals: 200)
    }

    @Test("A rejected token is 400 and its reason is recorded; without keys the response is 503")
    func rejected() async throws {
        let ticket = try await newSession()
        gateway.provider.logout(.failure(TokenClientError(.failed(.token(.nonceInLogoutToken)), in: .keys)))
        let response = await gateway.postLogout("logout_token=canary.token.x")
        expect(response.status, equals: 400)
        expect(response.json, equals: #"{"error":"invalid_request"}"#)
        expect(
            gateway.observer.all.last,
            equals: .providerLogoutFailed(identity: "company", reason: "nonce_in_logout_token"))
        gateway.provider.logout(.failure(TokenClientError(.unreachable, in: .keys)))
        await expect(gateway.postLogout().problem, equals: Problem(.identityUnavailable, retryAfter: 5))
        await expect(isActive([ticket]), equals: [true])
        expect(!"\(gateway.observer.all)".contains("canary"))
    }

    @Test("No cookie is read or set: the presented session does not matter")
    func cookies() async throws {
        let ticket = try await newSession(sid: "sid-2")
        gateway.provider.logout(.session(id: "sid-1", subject: nil))
        await expect(empty: gateway.postLogout(ticket: ticket).fields)
        await expect(isActive([ticket]), equals: [true])
    }

    @Test("Several providers have an endpoint each, and a token is verified by its own only")
    func severalProviders() async throws {
        let gateway = try LoginEndpoints(hasPartner: true)
        gateway.partner.logout(.subject("jo"))
        await expect(gateway.postLogout(name: "partner").status, equals: 200)
        expect(gateway.partner.tokens.count == 1 && gateway.provider.tokens.isEmpty)
        await expect(gateway.postLogout(name: "company").status, equals: 503)
        await expect(gateway.postLogout(name: nil).problem?.status, equals: 404)
    }
}

@Suite("A logout that arrives while the login is in progress")
struct LogoutDuringLoginTests {
    /// The logouts that concern the user and the session at the provider.
    private static let targets: [LogoutTarget] = [
        .session(id: "sid-1", subject: nil), .session(id: "sid-1", subject: "jo"), .subject("jo"),
    ]

    private static let targetsAndNames: [(LogoutTarget, String?)] =
        targets.map { ($0, "sid-1") } + [
            // An ID token need not contain the sid of the logout token.
            (.session(id: "sid-1", subject: "jo"), nil), (.subject("jo"), nil),
        ]

    private let browser: LoginBrowser
    private var gateway: LoginEndpoints { browser.gateway }

    init() throws { browser = LoginBrowser(try LoginEndpoints()) }

    @Test(
        "Identity rule 21: wins: before the callback, while the code is exchanged, and after the session was created",
        arguments: targetsAndNames, 0..<3)
    func logoutDuringCallbackWins(login: (LogoutTarget, String?), moment: Int) async throws {
        let time = LoginFixture.now + .seconds(5)
        gateway.provider.state { $0.providerSession = login.1 }
        gateway.provider.logout(login.0, at: time)
        let logout: @Sendable () async -> Void = { [gateway] in
            await expect(gateway.postLogout(at: time).status, equals: 200)
        }
        let query = try await browser.begin()
        if moment == 0 { await logout() }
        if moment == 1 { gateway.provider.onRedeem(logout) }
        let response = await browser.callback(query, at: time)
        if moment == 2 {
            expect(response.status, equals: 303)
            await logout()
            await expect(gateway.whoAmI(browser.ticket).problem?.reason, equals: .revoked)
        } else {
            expect(response.status, equals: 403)
            expect(response.html?.contains("You were not signed in."), equals: true)
            expect(gateway.lastLogin?.outcome, equals: .loggedOut)
            expect(empty: browser.cookies)
        }
        expect(gateway.store.count, equals: 0)
    }

    @Test(
        "Identity rule 21: is marked before sessions are searched: a login that completes in between ends too",
        arguments: targets)
    func marksComeFirst(target: LogoutTarget) async throws {
        gateway.provider.logout(target)
        let query = try await browser.begin()
        // The search does not take place; the provider will send the token again.
        gateway.store.fail(.endAll, .unavailable)
        await expect(gateway.postLogout().status, equals: 503)
        await expect(browser.callback(query).status, equals: 403)
        expect(gateway.store.count, equals: 0)
    }

    @Test("Identity rule 21: does not concern a login that began afterwards", arguments: targets)
    func later(target: LogoutTarget) async throws {
        gateway.provider.logout(target)
        await expect(gateway.postLogout().status, equals: 200)
        // The next session at the provider may have the same name.
        for sid in ["sid-1", "sid-2", nil] {
            gateway.provider.state { $0.providerSession = sid }
            // In the same second.
            try await expect(LoginBrowser(gateway).signIn(at: LoginFixture.now + .milliseconds(1)).status, equals: 303)
        }
    }

    @Test("Identity rule 21: does not concern other users, other sessions and other issuers")
    func others() async throws {
        let gateway = try LoginEndpoints(hasPartner: true)
        gateway.partner.logout(.subject("jo"), at: LoginFixture.now + .seconds(5))
        await expect(gateway.postLogout(name: "partner", at: LoginFixture.now + .seconds(5)).status, equals: 200)
        gateway.partner.logout(.session(id: "sid-1", subject: nil), id: "jti-2")
        await expect(gateway.postLogout(name: "partner").status, equals: 200)
        gateway.provider.logout(.subject("al"), at: LoginFixture.now + .seconds(5))
        await expect(gateway.postLogout(name: "company", at: LoginFixture.now + .seconds(5)).status, equals: 200)
        let browser = LoginBrowser(gateway)
        let query = try await browser.begin()
        await expect(browser.callback(query, name: "company", at: LoginFixture.now + .seconds(9)).status, equals: 303)
    }
}
