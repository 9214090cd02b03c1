import CloakroomCore

/// Continues a sign-out at its provider: `GET` of `logout` below the accounts prefix.
///
/// The URL at the provider contains the ID token (`id_token_hint`, OpenID Connect RP-Initiated Logout 1.0 §2). A page's
/// script could read it in the response of the sign-out, so that response only sets a sealed cookie, and a navigation
/// gets the URL as the target of a redirect, which no script can read. Without the cookie the sign-out ends here.
struct SignOutController: Sendable {
    let account: AccountController
    let logins: ProviderLogins

    func respond(_ request: AccountRequest) async -> AccountResponse {
        guard request.fetchMetadata.isNavigation else {
            let problem = Problem(.crossSite, detail: "Continue the sign-out in a browser tab.")
            return logins.response(account.worded(problem), to: request)
        }
        let cookies = logins.cookies
        return .redirect(
            to: cookies.signOutURL(among: request.loginCookies, now: request.wallTime) ?? logins.home,
            cookies: [cookies.clearCookieValue(name: cookies.signOutName)])
    }
}
