import CloakroomCore

/// `accounts.apps`: a mapping from names to native apps, at most 16; default none.
struct AppsSection {
    /// The maximum number of apps.
    private static let most = 16

    /// In the order of the file. The redirect is empty if it is missing or malformed.
    let items: [(scope: ConfigScope, configuration: AppConfiguration)]

    init(from accounts: ConfigScope) {
        items = accounts.items(named: "apps", of: ("app", "apps"), most: Self.most).map { name, scope in
            var app = AppConfiguration(name: name)
            app.read(from: scope)
            return (scope, app)
        }
    }

    /// - Parameter site: The default site, to which the apps belong.
    func check(
        _ site: SiteConfiguration, _ identities: IdentitiesSection, _ routes: [RouteSection],
        _ session: SessionConfiguration
    ) {
        for (scope, app) in items { app.check(scope, in: session) }
        let names = identities.items(of: site.identities).map(\.name)
        for (scope, app) in items where !app.redirect.isEmpty {
            if names.isEmpty {
                scope.report(
                    "requires an identity: users of apps sign in with a browser",
                    "add identities, or leave the app out",
                    at: "redirect", becauseOf: [["identities"]])
            }
            for (item, name) in app.identities.enumerated() where !names.contains(name) {
                scope.report(
                    "unknown identity \(name.quoted)", NameSuggestion.suggestion(for: name, among: names),
                    at: "identities", item: item)
            }
            if app.hasCustomScheme {
                scope.warn(
                    "another app may claim this scheme too (RFC 8252 §8.6)",
                    "prefer an https URL that the system opens in the app", at: "redirect")
            } else if let url = EndpointURL(app.redirect), let path = try? PathPattern(url.target),
                HostNames.folded(url.origin.host) == site.publicHost,
                let route = routes.compactMap(\.route).first(where: { $0.forwards(path) })
            {
                scope.warn(
                    "route \(route.name) forwards this path: without the app, its upstream gets the code",
                    "write a path that no route forwards", at: "redirect")
            }
        }
    }
}

extension AppConfiguration: ConfigSection {
    /// The keys of an app.
    static let keys: [Key<Self>] = [
        Key { if let redirect = $0.required("redirect", as: .appRedirect) { $1.redirect = redirect } },
        Key(optional: "label", \.label, .label),
        Key("confirm", \.confirm, .flag),
        Key { $1.identities = $0.nonEmptyList("identities", as: .text) ?? [] },
        Key(optional: "idleTimeout", \.idleTimeout, lifetime, .restart),
        Key(optional: "absoluteTimeout", \.absoluteTimeout, lifetime, .restart),
        Key(optional: "device", \.device, .choice(), .restart),
    ]

    /// Browsers keep no cookie for longer than 400 days.
    private static let lifetime = ValueFormat<Duration>.duration(.seconds(1) ... .seconds(400 * 86_400))

    func check(_ scope: ConfigScope) { scope.reportRepetition(in: identities, at: "identities") }

    /// Checks the lifetimes of its sessions, which are those of the default site.
    fileprivate func check(_ scope: ConfigScope, in session: SessionConfiguration) {
        let isInvalid = ["idleTimeout", "absoluteTimeout", "device"].contains(where: scope.isInvalid)
        guard !isInvalid, let (idle, absolute) = terms(session).map({ ($0.idle, $0.absolute) }) else { return }
        let name = absoluteTimeout == nil ? "idleTimeout" : "absoluteTimeout"
        let causes = [["session", "idleTimeout"], ["session", "absoluteTimeout"], scope.path + [name]]
        if idle > absolute {
            scope.report(
                "idleTimeout \(ValueFormat.rendered(idle)) must be at most absoluteTimeout"
                    + " \(ValueFormat.rendered(absolute))", "raise absoluteTimeout, or lower idleTimeout", at: name,
                becauseOf: causes)
        }
        guard absolute > .seconds(30 * 86_400) else { return }
        if device != .required {
            scope.report(
                "requires device: required above 30d: a copied cookie would be valid for as long",
                "add device: required, or write 30d or less", at: "absoluteTimeout", becauseOf: causes)
        }
        if session.store == .memory {
            scope.report(
                "requires a store outside the process above 30d: each restart would end the sessions",
                "write session.store: sqlite or valkey, or 30d or less", at: "absoluteTimeout",
                becauseOf: [["session", "store"]])
        }
    }
}

extension Route {
    fileprivate func forwards(_ path: PathPattern) -> Bool {
        if case .forward = action { methods.contains("GET") && pattern.covers(path) } else { false }
    }
}

extension ValueFormat where Value == String {
    /// Where a browser returns to an app (RFC 8252 §7). Only an `https` URL may have a host and a port of its own.
    fileprivate static let appRedirect = ValueFormat(
        "`com.example.app:/path`, `https://host/path` or `http://127.0.0.1/path`, without a query"
    ) { text throws(ConfigValueError) in
        let scheme = text.prefix { $0 != ":" }
        var url = text
        if scheme == "http" {
            try require(
                ["http://127.0.0.1/", "http://[::1]/"].contains(where: text.hasPrefix),
                "must be an https URL, or one of loopback without a port, which each login names",
                "write http://127.0.0.1/path, not localhost, which may be another machine (RFC 8252 §8.3)")
        } else if scheme != "https" {
            try require(
                text.first?.isLetter == true && scheme.contains(".")
                    && scheme.utf8.allSatisfy { 0x61...0x7a ~= $0 || 0x2d...0x2e ~= $0 || 0x30...0x39 ~= $0 },
                "must have a scheme of lower-case letters with a dot, not \(text.quoted)",
                "write the reverse of your domain, such as com.example.shop:/signed-in (RFC 8252 §7.1)")
            url = "https://app\(text.dropFirst(scheme.count + 1))"
        }
        let parts = EndpointURL(url)
        try require(
            parts?.hasQuery == false && parts?.target.isEmpty == false,
            "must be a URL with a path, without query and fragment, not \(text.quoted)",
            "write one such as com.example.shop:/signed-in or https://app.example.com/app/in")
        return text
    }
}
