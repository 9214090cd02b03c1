import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("Parameters that a login passes on to the provider")
struct PassedParametersTests {
    private static let permitted: [IdentityConfiguration.PassedParameter] = [
        .init("login_hint", .length(8)), .init("prompt", .listed(["login", "none"])), .init("ui_locales", .length(64)),
    ]

    private func browser(sameSite: CookieConfiguration.SameSite = .lax) throws -> LoginBrowser {
        LoginBrowser(try LoginEndpoints(sameSite: sameSite, passParameters: Self.permitted))
    }

    private static func navigation(from site: String) -> FetchMetadata {
        FetchMetadata(isGET: true, mode: "navigate", destination: "document", site: site)
    }

    @Test(
        "Identity rule 32: permitted values reach the provider, and parameters that are not listed are ignored",
        arguments: [
            ("login_hint=jo%40a.b&ui_locales=de+fr", [.init("login_hint", "jo@a.b"), .init("ui_locales", "de fr")]),
            ("prompt=login&kc_idp_hint=x&state=y", [.init("prompt", "login")]), ("", []),
        ] as [(String, [IdentityConfiguration.Parameter])])
    func permitted(query: String, passed: [IdentityConfiguration.Parameter]) async throws {
        let browser = try browser()
        await expect(browser.login(query).status, equals: 303)
        expect(browser.gateway.provider.passed, equals: [passed])
    }

    @Test(
        "Identity rule 32: another value, a control character, or a parameter twice get 400, and no login begins",
        arguments: [
            "login_hint=", "login_hint=123456789", "login_hint=a%00", "login_hint=a%0D%0A", "login_hint=%C2%85",
            "login_hint=%FF", "login_hint=%F0%9F%94%91%F0%9F%94%91a", "prompt=", "prompt=Login", "prompt=login+none",
            "ui_locales=de&ui_locales=de", "ui_locales=\(String(repeating: "a", count: 65))",
            "x=\(String(repeating: "a", count: 4_095))",
        ])
    func rejected(query: String) async throws {
        let browser = try browser()
        let response = await browser.login(query)
        expect(response.status, equals: 400)
        expect(response.html?.contains("The parameters of the sign-in are invalid."), equals: true)
        expect(empty: response.values(of: "Set-Cookie"))
        expect(empty: browser.gateway.provider.secrets)
    }

    @Test(
        "Identity rule 32: another site cannot choose the account, nor hide the login",
        arguments: [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)])
    func hints(site: String, isOwn: Bool) async throws {
        let browser = try browser()
        _ = await browser.login("login_hint=jo&prompt=none&ui_locales=de", metadata: Self.navigation(from: site))
        let locale = IdentityConfiguration.Parameter("ui_locales", "de")
        let own: [IdentityConfiguration.Parameter] = [.init("login_hint", "jo"), .init("prompt", "none")]
        expect(browser.gateway.provider.passed, equals: [isOwn ? own + [locale] : [locale]])
    }

    @Test("Identity rule 32: nor through the page that continues its link with a Strict cookie")
    func continued() async throws {
        let browser = try browser(sameSite: .strict)
        let page = await browser.login(
            "login_hint=jo&prompt=login", sendsTicket: false, metadata: Self.navigation(from: "cross-site"))
        expect(page.html?.contains("foreign=1&amp;prompt=login\""), equals: true, "\(page.html ?? "")")
        let own = Self.navigation(from: "same-origin")
        await expect(browser.login("foreign=1&prompt=login&login_hint=jo", metadata: own).status, equals: 303)
        expect(browser.gateway.provider.passed, equals: [[.init("prompt", "login")]])
    }

    // MARK: - prompt=none

    @Test(
        "Without a session at the provider, prompt=none continues without one here, and no login follows",
        arguments: ["login_required", "interaction_required", "consent_required", "account_selection_required"],
        [CookieConfiguration.SameSite.lax, .strict])
    func silent(code: String, sameSite: CookieConfiguration.SameSite) async throws {
        let browser = try browser(sameSite: sameSite)
        await expect(browser.login("prompt=none&returnTo=%2Fepisodes").status, equals: 303)
        let response = await browser.callback(try browser.returned("error=\(code)"))
        expect(response.status, equals: (sameSite == .lax ? 303 : 200))
        expect(response.location, equals: (sameSite == .lax ? "/episodes" : nil))
        if sameSite == .strict { expect(response.html?.contains("content=\"0;url=/episodes\""), equals: true) }
        expect(browser.cookies.isEmpty && browser.gateway.store.count == 0)
        expect(browser.gateway.lastLogin?.outcome == .denied && browser.gateway.lastLogin?.reason == code)
    }

    @Test(
        "Other failures have their page, and so have those of other logins",
        arguments: [
            ("prompt=none", "error=access_denied", 403), ("prompt=login", "error=login_required", 403),
            ("", "error=login_required", 403),
            ("prompt=none", "error=login_required&iss=https%3A%2F%2Fevil.example", 502),
        ])
    func failures(query: String, returned: String, status: Int) async throws {
        let browser = try browser()
        _ = await browser.login(query)
        await expect(browser.callback(try browser.returned(returned)).status, equals: status)
    }

    @Test("prompt=none that finds no session at the provider ends none here")
    func keepsSession() async throws {
        let browser = try browser()
        _ = try await browser.signIn()
        let ticket = browser.ticket
        _ = await browser.login("prompt=none")
        await expect(browser.callback(try browser.returned("error=login_required")).location, equals: "/home")
        expect(browser.ticket, equals: ticket)
        await expect(browser.gateway.whoAmI(ticket).status, equals: 200)
    }
}
