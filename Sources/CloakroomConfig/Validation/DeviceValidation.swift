import CloakroomCore

/// What sessions that are bound to a device require of the cookie, the public URL and the routes.
enum DeviceValidation {
    static func check(
        _ session: SessionConfiguration, scope: ConfigScope, accounts: AccountsSection, routes: [RouteSection]
    ) {
        let device = scope.sectionWithDefaults("device")
        guard !device.isInvalid("mode") else { return }
        let (mode, cause) = (session.device.mode, [device.path + ["mode"]])
        for route in routes where route.options.require.device {
            let require = route.scope.sectionWithDefaults("require")
            let credentials = route.options.credentials
            // Tokens with a key meet it.
            if !session.device.isUsed, !credentials.acceptsTokens {
                require.report(
                    "is never met: no session is bound to a device", "write session.device.mode: auto", at: "device",
                    becauseOf: cause)
            } else if route.requiresAuthorization == false || credentials == .basic {
                require.report(
                    "requires a route that requires a session", "leave it out", at: "device",
                    becauseOf: ["requiresAuthorization", "authorization"].map { route.scope.path + [$0] })
            }
        }
        guard session.device.isUsed else { return }
        let apps = accounts.apps.items.filter { mode == .off && $0.configuration.device ?? .off != .off }
        let cookie = scope.sectionWithDefaults("cookie")
        if !session.cookie.isSecure {
            let (scope, name) = apps.first.map { ($0.scope, "device") } ?? (device, "mode")
            scope.report(
                "requires session.cookie.secure: browsers bind sessions over https only",
                "leave it out in development", at: name, becauseOf: [cookie.path + ["secure"]])
        }
        let sites = accounts.sites.items.filter { $0.configuration.domain != nil }
        for section in (session.cookie.domain == nil ? [] : [cookie]) + sites.map({ SitesSection.cookie($0.scope) }) {
            section.report(
                "conflicts with session.device: a session of several hosts is bound to no device",
                "leave it out, or write session.device.mode: off", at: "domain",
                becauseOf: cause + apps.map { $0.scope.path + ["device"] })
        }
        if session.device.lifetime < .seconds(300), !device.isInvalid("lifetime") {
            device.warn(
                "browsers sign 6 times in 9 minutes at most, and then send no proof", "write 5m or more",
                at: "lifetime")
        }
        if mode == .required, accounts.configuration.apps.isEmpty {
            device.warn(
                "browsers without device-bound sessions, such as Firefox and Safari, are signed out after offer",
                "write auto, and require.device on the routes that need it", at: "mode")
        }
    }
}
