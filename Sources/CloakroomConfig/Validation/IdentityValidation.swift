import CloakroomCore

/// Validates identities against accounts, routes and the session cookie.
enum IdentityValidation {
    static func check(
        _ identities: IdentitiesSection, accounts: AccountsSection, routes: [RouteSection],
        listeners: [ListenerSection], session: SessionConfiguration, crossSite: CrossSiteConfiguration
    ) {
        checkRequiredField(routes, crossSite)
        guard !identities.items.isEmpty else {
            checkUnused(accounts, routes, listeners)
            return
        }
        if accounts.configuration.publicURL == nil, !accounts.scope.isInvalid("publicURL") {
            accounts.scope.reportMissing(
                "publicURL", "redirect URIs of identities are made of it",
                "write the origin of the gateway as browsers see it, such as https://app.example.com")
        }
        checkTransport(accounts, session)
        for route in routes { check(route, identities, accounts) }
        checkIntrospection(identities, accounts.sites)
        checkReturnTargets(identities, accounts, routes)
    }

    /// Settings that have no effect without identities. Requirements of a route are an error, because the route would
    /// be open to sessions that do not meet them.
    private static func checkUnused(
        _ accounts: AccountsSection, _ routes: [RouteSection], _ listeners: [ListenerSection]
    ) {
        let usesPublicURL =
            listeners.contains { $0.redirectToHTTPS != nil } || routes.contains { !$0.options.hosts.isEmpty }
        for name in usesPublicURL ? ["identities"] : ["publicURL", "identities"]
        where accounts.scope.isSet(name) && !accounts.scope.isInvalid(name) {
            accounts.scope.warn("has no effect without identities", "leave it out, or add identities", at: name)
        }
        for route in routes {
            if route.options.onMissingSession == .login, !accounts.configuration.isEnabled {
                route.scope.report(
                    "login requires an identity or an upstream with signIn", "add identities, or write reject",
                    at: "onMissingSession", becauseOf: [["identities"]])
            } else {
                checkLogin(route)
            }
            if let key = requirement(of: route) {
                route.scope.sectionWithDefaults("require").report(
                    "requires an identity: other sessions have no claims", "add identities, or leave it out", at: key,
                    becauseOf: [["identities"]])
            }
        }
    }

    /// A session cookie without `Secure` is for development: the public URL is then on loopback too.
    private static func checkTransport(_ accounts: AccountsSection, _ session: SessionConfiguration) {
        guard let url = accounts.configuration.publicURL, session.cookie.isSecure, url.hasPrefix("http://") else {
            return
        }
        accounts.scope.report(
            "must be an https origin while session.cookie.secure is true: browsers reject the cookie",
            "write https, or session.cookie.secure: false", at: "publicURL",
            becauseOf: [["session", "cookie", "secure"]])
    }

    private static func check(_ route: RouteSection, _ identities: IdentitiesSection, _ accounts: AccountsSection) {
        checkLogin(route)
        checkLoginHosts(route, accounts.sites)
        if route.requiresAuthorization == false {
            if let key = requirement(of: route) {
                route.scope.sectionWithDefaults("require").report(
                    "conflicts with requiresAuthorization: false", "write requiresAuthorization: true", at: key)
            }
        }
    }

    /// What a route needs that sends navigations without a session to sign in.
    private static func checkLogin(_ route: RouteSection) {
        guard route.options.onMissingSession == .login else { return }
        if route.requiresAuthorization == false {
            route.scope.report(
                "has no effect with requiresAuthorization: false", "write requiresAuthorization: true",
                at: "onMissingSession")
        }
        if let methods = route.methods, !methods.contains("GET") {
            route.scope.report(
                "login is for navigations, which are GET", "add GET to methods, or write reject", at: "onMissingSession"
            )
        }
    }

    /// A provider that is asked about a token learns it, and an opaque token does not state which one issued it.
    private static func checkIntrospection(_ identities: IdentitiesSection, _ sites: SitesSection) {
        for site in [sites.main] + sites.items.map(\.configuration) {
            let asked = identities.items(of: site.identities).filter {
                $0.configuration?.accessTokens?.introspection != nil
            }
            guard asked.count > 1 else { continue }
            return asked[1].scope.section("accessTokens").report(
                "conflicts with identity \(asked[0].name.quoted): only one provider of a site can be asked about tokens",
                "leave it out", at: "introspection")
        }
    }

    /// The login cookie belongs to the host where the login begins, also with `session.cookie.domain`.
    private static func checkLoginHosts(_ route: RouteSection, _ sites: SitesSection) {
        guard route.options.onMissingSession == .login else { return }
        for (index, host) in route.options.hosts.enumerated() {
            let site = sites.site(of: host)
            guard site.upstream == nil, let end = site.publicHost, host != end else { continue }
            let section = site.name.isEmpty ? "accounts" : "sites.\(site.name)"
            route.scope.warn(
                "logins that begin at \(host) fail: they end at \(end), the host of \(section).publicURL, which does"
                    + " not get the login cookie", "write onMissingSession: reject, and sign in at \(end)", at: "hosts",
                item: index)
        }
    }

    /// After the login the navigation has a session cookie, but no field that a browser adds by itself.
    private static func checkRequiredField(_ routes: [RouteSection], _ crossSite: CrossSiteConfiguration) {
        guard let field = crossSite.requiredField?.name else { return }
        for route in routes where route.options.onMissingSession == .login {
            route.scope.report(
                "login conflicts with csrf.requireHeader: navigations have no field \(field), so they get 403",
                "write reject, or leave out csrf.requireHeader", at: "onMissingSession",
                becauseOf: [["csrf", "requireHeader"]])
        }
    }

    /// The configured targets have to be served by routes, like those that clients request.
    private static func checkReturnTargets(
        _ identities: IdentitiesSection, _ accounts: AccountsSection, _ routes: [RouteSection]
    ) {
        let all = routes.compactMap(\.route)
        guard all.count == routes.count else { return }
        func isServed(_ path: String) -> Bool {
            guard let path = try? PathPattern(path) else { return false }
            return all.contains { $0.methods.contains("GET") && $0.pattern.covers(path) }
        }
        let login = accounts.scope.sectionWithDefaults("login")
        let unserved = ConfigValueError(
            "must be a path that a route serves for GET", "add a route for it, or write another path")
        if !isServed(accounts.configuration.login.returnTo), !login.isInvalid("returnTo") {
            if login.isSet("returnTo") {
                login.report(unserved, at: "returnTo")
            } else {
                login.warn(
                    "/ is served by no route: browsers get 404 after a login", "write a served path", at: "returnTo")
            }
        }
        for item in identities.items {
            let logout = item.scope.sectionWithDefaults("logout")
            guard let path = item.configuration?.logout.returnTo, logout.isSet("returnTo"),
                !logout.isInvalid("returnTo"), !isServed(path)
            else { continue }
            logout.report(unserved, at: "returnTo")
        }
    }

    /// The first key of `require` that is set.
    static func requirement(of route: RouteSection) -> String? {
        if !route.options.require.claims.isEmpty { return "claims" }
        if !route.options.require.acr.isEmpty { return "acr" }
        if !route.options.require.anyOf.isEmpty { return "anyOf" }
        return route.options.require.maxAge == nil ? nil : "maxAge"
    }
}
