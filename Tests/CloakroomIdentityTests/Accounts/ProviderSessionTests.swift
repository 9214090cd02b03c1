import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("The account endpoints with sessions of providers")
struct ProviderSessionTests {
    private let gateway: LoginEndpoints

    init() throws { gateway = try LoginEndpoints() }

    private static let next = "https://id.example.com/logout?client_id=cloakroom"
    private static let continuation = "https://app.example.com/auth/logout"

    @Test("Identity rule 19: a sign-out ends the session, then revokes its tokens, then names where it continues")
    func signOut() async throws {
        gateway.provider.endSession(at: Self.next)
        let ticket = try await gateway.newSession()
        let response = await gateway.signOut(ticket)
        expect(response.status, equals: 200)
        expect(response.json, equals: #"{"next":"\#(Self.continuation)"}"#)
        expect(response.values(of: "Set-Cookie").first?.hasPrefix("__Host-cloakroom=;"), equals: true)
        expect(!response.everything.contains("canary"))
        expect(response.values(of: "Clear-Site-Data"), equals: [#""cache", "storage""#])
        expect(gateway.journal.all.suffix(2), equals: ["end signed_out", "revoke canary-refresh-1"])
        await expect(gateway.whoAmI(ticket).problem?.reason, equals: .revoked)
        // Repeated, and without a session.
        await expect(gateway.signOut(ticket).status, equals: 204)
        await expect(gateway.signOut(nil).status, equals: 204)
    }

    @Test(
        "Identity rule 19: without an endpoint at the provider a sign-out is 204, and a failed revocation changes nothing"
    )
    func signOutHere() async throws {
        gateway.client.failRevoke(.unreachable)
        await expect(gateway.signOut(try await gateway.newSession()).status, equals: 204)
        gateway.provider.endSession(at: Self.next)
        await expect(gateway.signOut(try await gateway.newSession()).status, equals: 200)
        expect(gateway.store.count, equals: 0)
    }

    @Test("Identity rule 19: a sign-out that the store cannot execute does not continue at the provider")
    func storeDown() async throws {
        gateway.provider.endSession(at: Self.next)
        let ticket = try await gateway.newSession()
        gateway.store.fail(.end, .unavailable)
        await expect(gateway.signOut(ticket), equals: AccountResponse(Problem(.storeUnavailable, retryAfter: 5)))
    }

    /// Requests the continuation with the cookies of a response.
    private func continued(
        _ gateway: LoginEndpoints, after response: AccountResponse,
        metadata: FetchMetadata = LoginEndpoints.navigation, at now: WallTime = LoginEndpoints.now
    ) async -> AccountResponse {
        let cookies = response.values(of: "Set-Cookie").map(LoginFixture.received)
        return await gateway.endpoints.respond(
            AccountRequest(
                endpoint: .logout, loginCookies: cookies.filter { $0.name.contains("-login-") },
                fetchMetadata: metadata, now: now.sessionTime))
    }

    @Test("A sign-out continues with a navigation: only a redirect has the ID token, and no script can read it")
    func continuation() async throws {
        gateway.provider.endSession(at: Self.next)
        let response = await gateway.signOut(try await gateway.newSession())
        let cookie = try require(response.values(of: "Set-Cookie").last)
        expect(cookie.hasPrefix("__Host-cloakroom-login-out="))
        expect(cookie.hasSuffix("; Path=/; HttpOnly; Secure; SameSite=Lax; Max-Age=60"))
        let redirect = await continued(gateway, after: response)
        expect(redirect.status, equals: 303)
        expect(redirect.location, equals: Self.next + "&id_token_hint=canary-id-token")
        expect(redirect.values(of: "Referrer-Policy"), equals: ["no-referrer"])
        expect(
            redirect.values(of: "Set-Cookie"),
            equals: [
                "__Host-cloakroom-login-out=; Path=/; HttpOnly; Secure; SameSite=Lax; Max-Age=0"
            ])
        for metadata in [
            FetchMetadata(isGET: true, mode: "cors", destination: "empty", accept: "text/html"),
            FetchMetadata(isGET: true, mode: "navigate", destination: "iframe"),
        ] {
            let rejected = await continued(gateway, after: response, metadata: metadata)
            expect(rejected.problem?.code, equals: .crossSite)
            expect(rejected.location == nil && rejected.values(of: "Set-Cookie").isEmpty)
        }
    }

    @Test("Without its cookie, or after a minute, a sign-out ends here: no client chooses where it continues")
    func noContinuation() async throws {
        gateway.provider.endSession(at: Self.next)
        let response = await gateway.signOut(try await gateway.newSession())
        await expect(
            continued(gateway, after: response, at: LoginEndpoints.now + .seconds(61)).location, equals: "/home")
        await expect(continued(gateway, after: AccountResponse(status: 200)).location, equals: "/home")
        for value in ["", "https://evil.example/", String(repeating: "A", count: 5_000)] {
            let forged = AccountResponse(
                status: 200, fields: [.init("Set-Cookie", "__Host-cloakroom-login-out=\(value); Path=/")])
            await expect(continued(gateway, after: forged).location, equals: "/home")
        }
        // A login cookie is sealed for another name.
        let login = await LoginBrowser(gateway).login()
        let moved = try require(login.values(of: "Set-Cookie").first.map(LoginFixture.received))
        let request = AccountRequest(
            endpoint: .logout,
            loginCookies: [ReceivedCookie(name: "__Host-cloakroom-login-out", value: moved.value)],
            fetchMetadata: LoginEndpoints.navigation, now: LoginEndpoints.now.sessionTime)
        await expect(gateway.endpoints.respond(request).location, equals: "/home")
    }

    @Test("Without an ID token, or with one that is too large for a cookie, the page continues at the provider itself")
    func direct() async throws {
        gateway.provider.endSession(at: Self.next)
        for token in [nil, String(repeating: "a", count: 3_000)] {
            gateway.provider.state { $0.idToken = token.map { Secret($0) } }
            let response = await gateway.signOut(try await gateway.newSession())
            expect(response.json, equals: #"{"next":"\#(Self.next)"}"#)
            expect(response.values(of: "Set-Cookie").count, equals: 1)
        }
    }

    @Test("A password session signs out with 204, also next to providers")
    func passwordSession() async throws {
        gateway.provider.endSession(at: Self.next)
        gateway.client.response(.success(AccountControllerFixture.signedIn("1")))
        let body = Secret(#"{"email":"jo@example.com","password":"canary-password"}"#)
        let request = AccountRequest(
            endpoint: .signIn, contentType: "application/json", body: body, now: LoginEndpoints.now.sessionTime)
        let ticket = try await require(gateway.endpoints.respond(request).ticket)
        let document = try await require(gateway.whoAmI(ticket).json)
        expect(document.contains(AccountControllerFixture.userJSON))
        await expect(gateway.signOut(ticket).status, equals: 204)
    }

    @Test("A user lists and ends the sessions of the own account, of all identities with its issuer and of no other")
    func lists() async throws {
        let tickets = [try await gateway.newSession(), try await gateway.newSession()]
        gateway.provider.state { $0.subject = "al" }
        let other = try await gateway.newSession()
        func call(_ endpoint: AccountEndpoint) async -> AccountResponse {
            await gateway.endpoints.respond(
                AccountRequest(endpoint: endpoint, ticket: tickets[0], now: LoginEndpoints.now.sessionTime))
        }
        await expect(call(.listSessions).json?.ranges(of: #""id":"#).count, equals: 2)
        await expect(call(.endOtherSessions).json, equals: #"{"ended":1}"#)
        await expect(gateway.whoAmI(tickets[0]).status, equals: 200)
        await expect(gateway.whoAmI(tickets[1]).status, equals: 401)
        await expect(gateway.whoAmI(other).status, equals: 200)
    }

    @Test("A session of an identity that was removed, or has another issuer now, ends")
    func removed() async throws {
        let stated = SessionProvenance(
            identity: "company", issuer: "https://old.example.com", subject: "jo", nonceHash: [],
            claims: Array("{}".utf8))
        let new = NewSession(
            user: UserProfile(json: Array("{}".utf8), account: stated.account),
            tokens: TokenSet(authorization: Secret("Bearer a"), obtainedAt: LoginEndpoints.now),
            source: SessionSource(identity: "company", issuer: "https://old.example.com"), provenance: stated)
        let ticket = try await gateway.store.create(new, now: LoginEndpoints.now.sessionTime).0
        await expect(gateway.whoAmI(ticket).problem?.reason, equals: .revoked)
        expect(gateway.journal.all.last, equals: "end source_gone")
    }
}
