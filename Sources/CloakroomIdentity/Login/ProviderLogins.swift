package import CloakroomCore

/// What the endpoints of the login need of a provider.
package protocol LoginProvider: Sendable {
    var configuration: IdentityConfiguration { get }
    /// See ``OpenIDProvider/prepare(from:)``.
    func prepare(from address: String) async throws(TokenClientError)
    /// Whether authorization responses have `iss` (RFC 9207 §3).
    var announcesIssuer: Bool { get }
    /// See ``OpenIDProvider/authorizationURL(_:redirectURI:stepUp:passed:address:traceparent:)``.
    func authorizationURL(
        _ secrets: LoginSecrets, redirectURI: String, stepUp: AuthorizationRequest.StepUp?,
        passed: [IdentityConfiguration.Parameter], address: String, traceparent: String?
    ) async throws(TokenClientError) -> String
    /// See ``OpenIDProvider/redeem(code:login:redirectURI:needsAuthenticationTime:traceparent:now:)``.
    func redeem(
        code: Secret, login: PendingLogin, redirectURI: String, needsAuthenticationTime: Bool, traceparent: String?,
        now: WallTime
    ) async throws(TokenClientError) -> ProviderSignIn
    /// See ``OpenIDProvider/verifyLogoutToken(_:from:now:)``.
    func verifyLogoutToken(
        _ token: [UInt8], from address: String, now: WallTime
    ) async throws(TokenClientError) -> LogoutToken
    /// See ``OpenIDProvider/endSessionURL(_:publicURL:)``.
    func endSessionURL(_ provenance: SessionProvenance, publicURL: String) -> String?
}

extension OpenIDProvider: LoginProvider {}

/// The providers that users may sign in with at a site of a configuration, and what their logins have in common.
package struct ProviderLogins: Sendable {
    /// The providers, the default first. At least one.
    let providers: [any LoginProvider]
    let cookies: LoginCookies
    let routes: RouteTable
    let login: LoginConfiguration
    private let apps: [AppConfiguration]
    /// The upstreams, whose claim headers have to be able to contain the claims of a user.
    let upstreams: [UpstreamConfiguration]
    /// How the pages look.
    let theme: PageTheme
    let publicURL: String
    /// The group of its host.
    private let group: Int
    private let prefix: String

    /// - Parameters:
    ///   - providers: In the order of ``AccountsConfiguration/identities``.
    ///   - configuration: As it applies to the site.
    ///   - routes: The routes of the configuration.
    ///   - sealing: Seals login cookies.
    ///   - site: The name of the site; empty for the default one.
    /// - Returns: `nil` without providers or without a public URL: users cannot sign in at a provider.
    package init?(
        _ providers: [any LoginProvider], _ configuration: GatewayConfiguration, routes: RouteTable,
        sealing: any CookieSealing, site: String = ""
    ) {
        let accounts = configuration.accounts
        guard !providers.isEmpty, let publicURL = accounts.publicURL else { return nil }
        self.providers = providers
        self.routes = routes
        self.publicURL = publicURL
        group = routes.groups.group(of: accounts.publicHost) ?? 0
        prefix = accounts.prefix
        login = accounts.login
        apps = accounts.apps
        upstreams = configuration.upstreams
        theme = PageTheme(configuration.pages)
        cookies = LoginCookies(
            configuration.session.cookie, timeout: accounts.login.timeout, pending: LoginConfiguration.pending,
            sealing: sealing, site: site)
    }

    func provider(named name: String) -> (any LoginProvider)? {
        providers.first { TokenClaims.isSame($0.configuration.name, name) }
    }

    func app(named name: String) -> AppConfiguration? { apps.first { TokenClaims.isSame($0.name, name) } }

    /// The providers that the users of an app may sign in with, the default first.
    func providers(of app: AppConfiguration) -> [any LoginProvider] {
        app.identities.isEmpty ? providers : app.identities.compactMap(provider(named:))
    }

    /// The app of a login and its provider.
    /// - Returns: `nil` if a reload has removed one of them, or given the name of the provider to another one.
    func parties(of login: PendingLogin) -> (app: AppConfiguration, provider: any LoginProvider)? {
        guard let app = login.app.flatMap({ app(named: $0.name) }), app.isLoopback == (login.app?.port != 0),
            let provider = providers(of: app).first(where: { $0.configuration.name == login.identity }),
            login.issuerHash == PendingLogin.hash(ofIssuer: provider.configuration.issuer)
        else { return nil }
        return (app, provider)
    }

    /// The URL that an app opens in a browser.
    func url(ofToken token: String) -> String { "\(publicURL)\(prefix)/login?app=\(token)" }

    /// The provider with a name among some, otherwise the default one. Users authenticate again at the provider of their
    /// session by default: at another one they would be other users.
    /// - Parameter session: That of a step-up; `nil` for another login.
    /// - Returns: `nil` if there is no provider with the name.
    func provider(
        _ name: String?, among some: [any LoginProvider], of session: Session?
    ) -> (any LoginProvider)? {
        if let name { return some.first { TokenClaims.isSame($0.configuration.name, name) } }
        return some.first { session != nil && $0.configuration.source == session?.source } ?? some.first
    }

    /// What a provider gets of the fields of a client.
    /// - Returns: `nil` if a value is not permitted.
    func passed(
        _ fields: [JSONMemberName: String], to provider: any LoginProvider
    ) -> [IdentityConfiguration.Parameter]? {
        var passed: [IdentityConfiguration.Parameter] = []
        for parameter in provider.configuration.passParameters {
            guard let value = fields[JSONMemberName(parameter.name)] else { continue }
            guard parameter.permits(value) else { return nil }
            passed.append(.init(parameter.name, value))
        }
        return passed
    }

    /// The provider of a callback or a back-channel request. Each of several providers has a path of its own, and a
    /// single one has the path without a name (RFC 9700 §4.4.2.2).
    func provider(ofPath name: String?) -> (any LoginProvider)? {
        guard providers.count > 1 else { return name == nil ? providers.first : nil }
        return name.flatMap(provider(named:))
    }

    func redirectURI(of provider: any LoginProvider) -> String {
        AuthorizationRequest.redirectURI(
            publicURL: publicURL, prefix: prefix, identity: provider.configuration.name, isOnly: providers.count == 1)
    }

    /// The requirement of a route for which a new login can be necessary.
    /// - Returns: `nil` if there is no such route.
    func requirement(ofRoute name: String) -> SessionRequirement? {
        routes.routes.first { TokenClaims.isSame($0.name, name) }?.require
    }

    /// Where a browser continues that requested nothing else.
    var home: String { returnTarget(nil) }

    /// Where a browser continues after a login: at the host of the callback.
    func returnTarget(_ requested: String?) -> String {
        ReturnTarget.resolve(requested, routes: routes, group: group, configured: login.returnTo)
    }

    /// Where the sign-out of a session continues: at its provider or, if the URL there contains the ID token, at the
    /// gateway's own endpoint, which redirects to it.
    /// - Returns: The URL and the `Set-Cookie` value that this endpoint needs; `nil` if the sign-out ends here.
    func signOutContinuation(of session: Session, now: WallTime) -> (url: String, cookie: String?)? {
        guard var provenance = session.provenance,
            let provider = providers.first(where: { $0.configuration.source == session.source }),
            let url = provider.endSessionURL(provenance, publicURL: publicURL)
        else { return nil }
        guard provenance.idToken != nil else { return (url, nil) }
        if let cookie = cookies.signOutCookieValue(url: url, now: now) {
            return (publicURL + prefix + "/logout", cookie)
        }
        provenance.idToken = nil
        return provider.endSessionURL(provenance, publicURL: publicURL).map { ($0, nil) }
    }

    /// The response to a failed login: a page for navigations, otherwise a problem document.
    func response(_ problem: Problem, to request: AccountRequest, cookies: [String] = []) -> AccountResponse {
        let fields =
            [AccountResponse.Field("Vary", FetchMetadata.vary)]
            + cookies.map { AccountResponse.Field("Set-Cookie", $0) }
        guard request.fetchMetadata.isNavigation else { return AccountResponse(problem, fields: fields) }
        return LoginPage.failure(
            problem, home: home, requestID: request.origin.requestID, theme: theme, fields: fields)
    }
}
