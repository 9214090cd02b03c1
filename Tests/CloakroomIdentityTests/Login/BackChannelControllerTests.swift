import CloakroomCore
import Testing

@testable import CloakroomIdentity

@Suite("POST to backchannel below the accounts prefix")
struct BackChannelControllerTests {
    /// Signs a user in at the provider, in a browser of its own.
    private func session(
        _ gateway: LoginEndpoints, subject: String = "jo", sid: String? = "sid-1", at now: Timestamp = LoginFixture.now
    ) async throws -> SessionTicket {
        gateway.provider.state {
            $0.subject = subject
            $0.providerSession = sid
        }
        var browser = LoginBrowser(gateway)
        _ = try await browser.signIn(at: now)
        return try #require(browser.ticket)
    }

    private func isActive(_ gateway: LoginEndpoints, _ tickets: [SessionTicket]) async -> [Bool] {
        var active: [Bool] = []
        for ticket in tickets { active.append(await gateway.whoAmI(ticket).status == 200) }
        return active
    }

    @Test("Identity rule 20: ends the sessions of a sid, of all browsers, and no other")
    func session() async throws {
        let gateway = try LoginEndpoints()
        let tickets = [
            try await session(gateway), try await session(gateway), try await session(gateway, sid: "sid-2"),
            try await session(gateway, sid: nil), try await session(gateway, subject: "al", sid: "sid-3"),
        ]
        gateway.provider.logout(.session(id: "sid-1", subject: nil))
        let response = await gateway.postLogout()
        #expect(response == AccountResponse(status: 200))
        #expect(await isActive(gateway, tickets) == [false, false, true, true, true])
        #expect(gateway.provider.tokens == [Array("a.b.c".utf8)])
        guard case .providerLogout(let ended, identity: "company") = gateway.observer.all.last else {
            Issue.record("no event")
            return
        }
        #expect(ended.count == 2)
        // The provider knows what it has ended.
        #expect(!gateway.journal.all.contains { $0.hasPrefix("revoke") })
    }

    @Test("Identity rule 20: with a sub, the session also has to belong to it")
    func sessionOfSubject() async throws {
        let gateway = try LoginEndpoints()
        let ticket = try await session(gateway)
        gateway.provider.logout(.session(id: "sid-1", subject: "al"))
        #expect(await gateway.postLogout().status == 200)
        #expect(await isActive(gateway, [ticket]) == [true])
        gateway.provider.logout(.session(id: "sid-1", subject: "jo"), id: "jti-2")
        #expect(await gateway.postLogout().status == 200)
        #expect(await isActive(gateway, [ticket]) == [false])
    }

    @Test("Identity rule 20: with a sid and a sub, the user's earlier sessions without a sid end too")
    func sessionWithoutName() async throws {
        let gateway = try LoginEndpoints()
        let now = LoginFixture.now
        let tickets = [
            try await session(gateway, sid: nil), try await session(gateway, sid: "sid-2"),
            try await session(gateway, subject: "al", sid: nil),
            try await session(gateway, sid: nil, at: now + .seconds(31)),
        ]
        gateway.provider.logout(.session(id: "sid-1", subject: "jo"))
        #expect(await gateway.postLogout(at: now + .seconds(60)).status == 200)
        #expect(await isActive(gateway, tickets) == [false, true, true, true])
    }

    @Test("Identity rule 20: a sub alone ends the sessions from before iat, also if the provider's clock is behind")
    func subject() async throws {
        let gateway = try LoginEndpoints()
        let now = LoginFixture.now
        let tickets = [
            try await session(gateway, sid: nil, at: now - .seconds(100)),
            try await session(gateway, sid: "sid-9", at: now + .milliseconds(30_999)),
            try await session(gateway, sid: nil, at: now + .milliseconds(31_000)),
            try await session(gateway, subject: "JO", sid: nil, at: now - .seconds(100)),
        ]
        gateway.provider.logout(.subject("jo"), at: now + .milliseconds(500))
        #expect(await gateway.postLogout(at: now + .seconds(60)).status == 200)
        #expect(await isActive(gateway, tickets) == [false, false, true, true])
    }

    @Test("Identity rule 20: a user who signs in right after a logout arrived stays signed in, in the same second too")
    func sameSecond() async throws {
        let gateway = try LoginEndpoints()
        let now = LoginFixture.now
        var tickets: [SessionTicket] = []
        for milliseconds in [400, 500, 501] {
            tickets.append(try await session(gateway, sid: nil, at: now + .milliseconds(milliseconds)))
        }
        gateway.provider.logout(.subject("jo"), at: now)
        #expect(await gateway.postLogout(at: now + .milliseconds(500)).status == 200)
        #expect(await isActive(gateway, tickets) == [false, false, true])
    }

    @Test("Identity rule 20: the time of a session follows the clock of sessions, and iat the wall clock")
    func clocks() async throws {
        let gateway = try LoginEndpoints()
        let ticket = try await session(gateway, sid: nil, at: LoginFixture.now + .seconds(50))
        gateway.provider.logout(.subject("jo"), at: LoginFixture.now + .seconds(2))
        // The wall clock was set back by a minute after the session was created.
        let request = AccountRequest(
            endpoint: .backChannel, contentType: "application/x-www-form-urlencoded", body: Secret("logout_token=a"),
            now: LoginFixture.now + .seconds(62), wallTime: LoginFixture.now + .seconds(2))
        #expect(await gateway.endpoints.respond(request).status == 200)
        #expect(await isActive(gateway, [ticket]) == [false])
    }

    @Test("Identity rule 20: a token that was processed does nothing again, and neither does one about an unknown user")
    func replay() async throws {
        let gateway = try LoginEndpoints()
        gateway.provider.logout(.session(id: "sid-1", subject: nil))
        #expect(await gateway.postLogout() == AccountResponse(status: 200))
        #expect(gateway.observer.all == [.providerLogout([], identity: "company")])
        // The mark of the logout ends with the longest login.
        let later = LoginFixture.now + .seconds(661)
        #expect(await gateway.postLogout(at: LoginFixture.now + .seconds(60)) == AccountResponse(status: 200))
        #expect(gateway.observer.all.count == 1)
        let ticket = try await session(gateway, at: later)
        #expect(await isActive(gateway, [ticket]) == [true])
        gateway.provider.logout(.session(id: "sid-1", subject: nil), id: "jti-2", at: later)
        #expect(await gateway.postLogout(at: later).status == 200)
        #expect(await isActive(gateway, [ticket]) == [false])
    }

    @Test(
        "Identity rule 20: if the store fails at any step, the response is 503, and the same token works when it is sent again"
    )
    func storeDown() async throws {
        for operation in [ScriptedStore.Operation.mark, .endAll] {
            let gateway = try LoginEndpoints()
            let ticket = try await session(gateway)
            gateway.provider.logout(.session(id: "sid-1", subject: nil))
            gateway.store.fail(operation, .unavailable)
            #expect(await gateway.postLogout().problem == Problem(.storeUnavailable, retryAfter: 5))
            #expect(
                gateway.observer.all.last == .providerLogoutFailed(identity: "company", reason: "store_unavailable"))
            #expect(await isActive(gateway, [ticket]) == [true])
            gateway.store.recover(operation)
            #expect(await gateway.postLogout().status == 200)
            #expect(await isActive(gateway, [ticket]) == [false])
        }
    }

    @Test("Identity rule 20: if the store fails halfway, the sessions that have ended are in the audit log")
    func halfway() async throws {
        let gateway = try LoginEndpoints()
        _ = try await session(gateway)
        gateway.provider.logout(.session(id: "sid-1", subject: nil))
        gateway.store.failAfterEnding()
        #expect(await gateway.postLogout().status == 503)
        let events = gateway.observer.all.suffix(2)
        guard case .providerLogout(let ended, identity: "company") = events.first else {
            Issue.record("no event")
            return
        }
        #expect(ended.count == 1)
        #expect(events.last == .providerLogoutFailed(identity: "company", reason: "store_unavailable"))
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
        let gateway = try LoginEndpoints()
        let response = await gateway.postLogout(body, contentType: contentType)
        #expect(response == AccountResponse(status: 400, content: .json(Array(#"{"error":"invalid_request"}"#.utf8))))
        #expect(gateway.provider.tokens.isEmpty)
        #expect(gateway.observer.all == [.providerLogoutFailed(identity: "company", reason: "malformed_request")])
    }

    @Test("Other parameters, and parameters of the media type, are ignored")
    func tolerant() async throws {
        let gateway = try LoginEndpoints()
        gateway.provider.logout(.subject("jo"))
        let type = "Application/X-WWW-Form-Urlencoded; charset=utf-8"
        #expect(await gateway.postLogout("x=1&logout_token=a.b.c&y", contentType: type).status == 200)
    }

    @Test("A rejected token is 400 and its reason is recorded; without keys the response is 503")
    func rejected() async throws {
        let gateway = try LoginEndpoints()
        let ticket = try await session(gateway)
        gateway.provider.logout(.failure(TokenClientError(.failed(.token(.nonceInLogoutToken)), in: .keys)))
        let response = await gateway.postLogout("logout_token=canary.token.x")
        #expect(response.status == 400)
        #expect(response.json == #"{"error":"invalid_request"}"#)
        #expect(
            gateway.observer.all.last == .providerLogoutFailed(identity: "company", reason: "nonce_in_logout_token"))
        gateway.provider.logout(.failure(TokenClientError(.unreachable, in: .keys)))
        #expect(await gateway.postLogout().problem == Problem(.identityUnavailable, retryAfter: 5))
        #expect(await isActive(gateway, [ticket]) == [true])
        #expect(!"\(gateway.observer.all)".contains("canary"))
    }

    @Test("No cookie is read or set: the presented session does not matter")
    func cookies() async throws {
        let gateway = try LoginEndpoints()
        let ticket = try await session(gateway, sid: "sid-2")
        gateway.provider.logout(.session(id: "sid-1", subject: nil))
        #expect(await gateway.postLogout(ticket: ticket).fields.isEmpty)
        #expect(await isActive(gateway, [ticket]) == [true])
    }

    @Test("If the configuration disables it, there is no such endpoint")
    func disabled() async throws {
        let gateway = try LoginEndpoints(backChannel: false)
        #expect(await gateway.postLogout().problem?.status == 404)
        #expect(gateway.provider.tokens.isEmpty)
    }

    @Test("Several providers have an endpoint each, and a token is verified by its own only")
    func severalProviders() async throws {
        let gateway = try LoginEndpoints(hasPartner: true)
        gateway.partner.logout(.subject("jo"))
        #expect(await gateway.postLogout(name: "partner").status == 200)
        #expect(gateway.partner.tokens.count == 1 && gateway.provider.tokens.isEmpty)
        #expect(await gateway.postLogout(name: "company").status == 503)
        #expect(await gateway.postLogout(name: nil).problem?.status == 404)
    }
}

@Suite("A logout that arrives while the login is in progress")
struct LogoutDuringLoginTests {
    /// The logouts that concern the user and the session at the provider.
    private static let targets: [LogoutToken.Target] = [
        .session(id: "sid-1", subject: nil), .session(id: "sid-1", subject: "jo"), .subject("jo"),
    ]

    @Test("Identity rule 21: wins: before the callback, while the code is exchanged, and after the session was created")
    func logoutDuringCallbackWins() async throws {
        for (index, target) in Self.targets.enumerated() {
            try await checkLogoutDuringCallback(index, target, sid: "sid-1")
        }
        // An ID token need not contain the sid of the logout token.
        for target in [.session(id: "sid-1", subject: "jo"), .subject("jo")] as [LogoutToken.Target] {
            try await checkLogoutDuringCallback(9, target, sid: nil)
        }
    }

    private func checkLogoutDuringCallback(_ index: Int, _ target: LogoutToken.Target, sid: String?) async throws {
        for moment in 0..<3 {
            let gateway = try LoginEndpoints()
            gateway.provider.state { $0.providerSession = sid }
            gateway.provider.logout(target, id: "jti-\(index)", at: LoginFixture.now + .seconds(5))
            let logout: @Sendable () async -> Void = {
                let response = await gateway.postLogout(at: LoginFixture.now + .seconds(5))
                #expect(response.status == 200)
            }
            var browser = LoginBrowser(gateway)
            _ = await browser.login()
            let query = try browser.returned()
            if moment == 0 { await logout() }
            if moment == 1 { gateway.provider.onRedeem(logout) }
            let response = await browser.callback(query, at: LoginFixture.now + .seconds(5))
            if moment == 2 {
                #expect(response.status == 303)
                await logout()
                #expect(await gateway.whoAmI(browser.ticket).problem?.reason == .revoked)
            } else {
                #expect(response.status == 403)
                #expect(response.html?.contains("You were not signed in.") == true)
                #expect(gateway.lastLogin?.outcome == .loggedOut)
                #expect(browser.cookies.isEmpty)
            }
            #expect(gateway.store.count == 0)
        }
    }

    @Test("Identity rule 21: is marked before sessions are searched: a login that completes in between ends too")
    func marksComeFirst() async throws {
        for target in Self.targets {
            let gateway = try LoginEndpoints()
            gateway.provider.logout(target)
            var browser = LoginBrowser(gateway)
            _ = await browser.login()
            // The search does not take place; the provider will send the token again.
            gateway.store.fail(.endAll, .unavailable)
            #expect(await gateway.postLogout().status == 503)
            #expect(await browser.callback(try browser.returned()).status == 403)
            #expect(gateway.store.count == 0)
        }
    }

    @Test("Identity rule 21: does not concern a login that began afterwards")
    func later() async throws {
        for (index, target) in Self.targets.enumerated() {
            let gateway = try LoginEndpoints()
            gateway.provider.logout(target, id: "jti-\(index)")
            #expect(await gateway.postLogout().status == 200)
            // The next session at the provider may have the same name.
            for sid in ["sid-1", "sid-2", nil] {
                gateway.provider.state { $0.providerSession = sid }
                var browser = LoginBrowser(gateway)
                // In the same second.
                #expect(try await browser.signIn(at: LoginFixture.now + .milliseconds(1)).status == 303)
            }
        }
    }

    @Test("Identity rule 21: does not concern other users, other sessions and other issuers")
    func others() async throws {
        let gateway = try LoginEndpoints(hasPartner: true)
        gateway.partner.logout(.subject("jo"), at: LoginFixture.now + .seconds(5))
        #expect(await gateway.postLogout(name: "partner", at: LoginFixture.now + .seconds(5)).status == 200)
        gateway.partner.logout(.session(id: "sid-1", subject: nil), id: "jti-2")
        #expect(await gateway.postLogout(name: "partner").status == 200)
        gateway.provider.logout(.subject("al"), at: LoginFixture.now + .seconds(5))
        #expect(await gateway.postLogout(name: "company", at: LoginFixture.now + .seconds(5)).status == 200)
        var browser = LoginBrowser(gateway)
        _ = await browser.login()
        let query = try browser.returned()
        #expect(await browser.callback(query, name: "company", at: LoginFixture.now + .seconds(9)).status == 303)
    }
}
