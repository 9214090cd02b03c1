import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("A login for a route that requires a certain authentication")
struct StepUpTests {
    /// A gateway and a browser with a session.
    private func signedIn(sameSite: CookieConfiguration.SameSite = .lax) async throws -> (LoginEndpoints, LoginBrowser)
    {
        let gateway = try LoginEndpoints(sameSite: sameSite)
        let browser = LoginBrowser(gateway)
        _ = try await browser.signIn()
        return (gateway, browser)
    }

    @Test(
        "replaces the session if the user authenticated as required",
        arguments: [(CookieConfiguration.SameSite.lax, 303), (.strict, 200)])
    func succeeds(sameSite: CookieConfiguration.SameSite, status: Int) async throws {
        let (gateway, browser) = try await signedIn(sameSite: sameSite)
        let earlier = browser.ticket
        gateway.provider.state {
            $0.acr = "mfa"
            $0.authenticatedAt = LoginFixture.now - .seconds(5)
        }
        let response = try await browser.signIn("for=invoice&returnTo=%2Finvoice", sendsTicket: sameSite == .lax)
        expect(response.status, equals: status)
        expect(gateway.provider.redemptions.last?.needsAuthenticationTime, equals: true)
        await expect(gateway.whoAmI(browser.ticket).status, equals: 200)
        await expect(gateway.whoAmI(earlier).problem?.reason, equals: .revoked)
        expect(gateway.store.count, equals: 1)
    }

    @Test(
        "Identity rule 24: a provider that ignores the requirement is detected, and the session stays as it is",
        arguments: [
            (nil, 0), ("pwd", 0), ("MFA", 0), ("mfa ", 0), ("", 0), ("mfa", nil), ("mfa", -631), ("mfa", 31),
        ] as [(String?, Int64?)])
    func providerThatIgnoresAcrIsCaught(acr: String?, authenticated: Int64?) async throws {
        let (gateway, browser) = try await signedIn()
        let earlier = browser.ticket
        gateway.provider.state {
            $0.acr = acr
            $0.authenticatedAt = authenticated.map { LoginFixture.now + .seconds($0) }
        }
        let response = try await browser.signIn("for=invoice&returnTo=%2Finvoice")
        expect(response.status, equals: 403)
        expect(response.html?.contains("You were not signed in as this requires."), equals: true)
        expect(gateway.lastLogin?.outcome, equals: .stepUpFailed)
        expect(gateway.lastLogin?.reason, equals: "step_up")
        expect(browser.ticket == earlier && browser.loginCookies.isEmpty)
        await expect(gateway.whoAmI(earlier).status, equals: 200)
        expect(gateway.store.count, equals: 1)
        // With these tokens the provider would end its own session, to which the one here belongs.
        expect(!gateway.journal.all.contains { $0.hasPrefix("revoke") })
    }

    @Test("for a route whose name is too long for the cookie is a mistake of the configuration")
    func longName() async throws {
        var routes = try LoginEndpoints.routes()
        let index = try require(routes.firstIndex { $0.name == "invoice" })
        routes[index].name = String(repeating: "i", count: 65)
        let gateway = try LoginEndpoints(routes: routes)
        let response = await LoginBrowser(gateway).login("for=\(routes[index].name)")
        expect(response.problem?.code, equals: .identityMisconfigured)
        expect(response.loginFailure, equals: "start: login_too_long")
    }

    @Test(
        "Identity rule 30: a login that meets no alternative is rejected, so that it does not begin anew without an end",
        arguments: [("staff", "pwd", 403), ("staff", "mfa", 303), ("admins", "pwd", 303)])
    func alternatives(group: String, acr: String, status: Int) async throws {
        var routes = try LoginEndpoints.routes()
        let index = try require(routes.firstIndex { $0.name == "invoice" })
        routes[index].require = SessionRequirement(
            anyOf: [.init(claims: [.init("groups", in: ["admins"])]), .init(acr: ["mfa"])])
        let gateway = try LoginEndpoints(routes: routes)
        let browser = LoginBrowser(gateway)
        _ = try await browser.signIn()
        gateway.provider.state {
            $0.claims = Array(#"{"groups":["\#(group)"]}"#.utf8)
            $0.acr = acr
        }
        try await expect(browser.signIn("for=invoice&returnTo=%2Finvoice").status, equals: status)
        expect(gateway.provider.stepUps.last, equals: .init(acr: ["mfa"]))
        expect(gateway.store.count, equals: 1)
    }

    @Test("Identity rule 24: another user than that of the session is rejected")
    func otherUser() async throws {
        let (gateway, browser) = try await signedIn()
        let earlier = browser.ticket
        gateway.provider.state {
            $0.acr = "mfa"
            $0.authenticatedAt = LoginFixture.now
            $0.subject = "al"
        }
        try await expect(browser.signIn("for=invoice").status, equals: 403)
        expect(gateway.lastLogin?.reason, equals: "other_user")
        expect(browser.ticket, equals: earlier)
        await expect(gateway.whoAmI(earlier).status, equals: 200)
    }

    @Test("Without a session the requirement is checked too, and no session is created if it is not met")
    func withoutSession() async throws {
        let gateway = try LoginEndpoints()
        let browser = LoginBrowser(gateway)
        try await expect(browser.signIn("for=invoice").status, equals: 403)
        expect(browser.ticket == nil && gateway.store.count == 0)
        gateway.provider.state {
            $0.acr = "mfa"
            $0.authenticatedAt = LoginFixture.now
        }
        try await expect(browser.signIn("for=invoice").status, equals: 303)
    }

    @Test("A requirement that a reload has removed while the user was at the provider rejects the login")
    func routeRemoved() async throws {
        let (before, after) = (try LoginEndpoints(), try LoginEndpoints(routes: []))
        let browser = LoginBrowser(before)
        _ = await browser.login("for=invoice")
        let later = LoginBrowser(after)
        for cookie in browser.loginCookies { later.set(cookie) }
        await expect(later.callback(try browser.returned()).status, equals: 403)
        expect(empty: after.provider.redemptions)
    }
}
