import CloakroomCore

/// Checks that some session can use a route: tokens are sent only to the upstreams that they are meant for, and only
/// providers state claims.
struct RouteSessionRules {
    let route: RouteSection
    let accounts: AccountsConfiguration
    let upstreams: UpstreamsSection
    let identities: IdentitiesSection

    func check() {
        checkCredentials()
        // Redirects and files accept sessions of every source, and so those of the sign-in upstream.
        guard let upstream = route.localAction != nil ? accounts.upstream ?? 0 : route.upstream else { return }
        let key: String
        if route.options.inject.contains(.bearer) {
            key = "inject"
        } else if route.requiresAuthorization == true {
            key = "requiresAuthorization"
        } else {
            return
        }
        // An invalid identity is reported; what it could be used for is unknown.
        guard let providers = providers(for: upstream) else { return }
        let acceptsPasswords = key == "inject" ? accounts.receivesToken(upstream) : accounts.upstream != nil
        guard acceptsPasswords || !providers.isEmpty else { return reportNone(key, upstream) }
        checkRequirement(upstream, providers)
        if acceptsPasswords, !providers.isEmpty { checkClaimHeaders(upstream) }
    }

    /// What the credentials of a route require of its other keys and of the identities.
    private func checkCredentials() {
        let (scope, isBearer) = (route.scope, route.options.inject.contains(.bearer))
        let credentials = route.options.credentials
        switch credentials {
        case .session: break
        case _ where credentials != .pass:
            if route.requiresAuthorization == false {
                scope.report("requires requiresAuthorization: true", "write it, or leave this out", at: "authorization")
            }
            if credentials.contains(.basic) { checkBasic() }
            if credentials.acceptsTokens, let providers = providers(for: route.upstream ?? 0),
                !providers.contains(where: { $0.accessTokens != nil })
            {
                scope.report(
                    "requires an identity with accessTokens" + (isBearer ? " whose tokens are for the upstream" : ""),
                    "add accessTokens to it, or leave this out", at: "authorization",
                    becauseOf: [["identities"], ["accounts", "identities"]])
            }
            if !credentials.contains(.session), route.options.onMissingSession == .login {
                scope.report(
                    "conflicts with \(credentials): no session is used", "write reject", at: "onMissingSession")
            }
        default:
            if isBearer, route.requiresAuthorization == false {
                scope.report("conflicts with inject: [bearer]", "keep one of the two", at: "authorization")
            } else if let localAction = route.localAction {
                scope.report("conflicts with \(localAction)", "remove one of the two", at: "authorization")
            } else {
                scope.inform(
                    "requests with Authorization reach the upstream unverified", "the upstream has to verify them",
                    at: "authorization")
            }
        }
    }

    /// Names and passwords are for the sign-in upstream. Its tokens are for the route's upstream, and state no claims.
    private func checkBasic() {
        let scope = route.scope
        if accounts.upstream == nil || route.upstream.map(accounts.receivesToken) == false {
            scope.report(
                "basic requires that the route's upstream is the one that signs users in, or gets its tokens",
                "add signIn to it, or add it to tokensFor of accounts.upstream, or leave basic out",
                at: "authorization", becauseOf: [["accounts", "upstream"]])
        }
        if route.options.credentials == .basic, let key = IdentityValidation.requirement(of: route) {
            scope.sectionWithDefaults("require").report(
                "is never met: a sign-in with basic has no claims", "leave it out, or accept sessions too", at: key)
        }
    }

    /// Warns if an upstream that gets claims in fields receives requests of sessions without claims.
    private func checkClaimHeaders(_ upstream: Int) {
        guard route.requiresAuthorization == true, IdentityValidation.requirement(of: route) == nil,
            !upstreams.configurations[upstream].claimHeaderNames.isEmpty
        else { return }
        let key = upstreams.configurations[upstream].claimHeaders.isEmpty ? "assertion" : "claimHeaders"
        route.scope.warn(
            "accepts sessions that were signed in to with a password, which have no claims for \(key)",
            "write require.claims to exclude them", at: "requiresAuthorization")
    }

    /// The providers whose sessions may use the route; `nil` if one of them is invalid.
    private func providers(for upstream: Int) -> [IdentityConfiguration]? {
        var found: [IdentityConfiguration] = []
        for item in identities.items(of: accounts.identities) {
            guard let identity = item.configuration else { return nil }
            let isServed =
                !route.options.inject.contains(.bearer) || identity.tokensFor.contains(upstream)
                || identity.exchanges.contains { $0.upstream == upstream }
            if isServed { found.append(identity) }
        }
        return found
    }

    /// Reports that no session can use the route.
    private func reportNone(_ key: String, _ upstream: Int) {
        if let provider = identities.items(of: accounts.identities).first?.name {
            // Without bearer every provider is sufficient.
            route.scope.report(
                "bearer requires an identity whose tokens are for the route's upstream",
                "add \(upstreams.names[upstream]) to identities.\(provider).tokensFor, or an exchange for it", at: key,
                becauseOf: [["identities"], ["accounts", "identities"]])
            return
        }
        guard let signIn = accounts.upstream else {
            route.scope.report(
                "requires a session, but no upstream defines signIn",
                identities.items.isEmpty ? "add signIn to the upstream" : "list an identity in accounts.identities",
                at: key, becauseOf: upstreams.scopes.map { $0.path + ["signIn"] } + [["identities"]])
            return
        }
        let name = upstreams.names[signIn]
        let more = identities.items.isEmpty ? "" : ", or list an identity in accounts.identities"
        route.scope.report(
            "bearer conflicts with the route's upstream: the tokens belong to upstream \(name.quoted)",
            "add \(upstreams.names[upstream]) to upstreams.\(name).tokensFor\(more)", at: key,
            becauseOf: [["upstreams", name, "tokensFor"]])
    }

    /// Requirements that no session can meet.
    private func checkRequirement(_ upstream: Int, _ providers: [IdentityConfiguration]) {
        guard !identities.items.isEmpty, let key = IdentityValidation.requirement(of: route) else { return }
        let require = route.scope.sectionWithDefaults("require")
        guard !providers.isEmpty else {
            let name = upstreams.names[accounts.upstream ?? upstream]
            require.report(
                "is never met: the route accepts only sessions of upstream \(name.quoted), which have no claims",
                "add \(upstreams.names[upstream]) to tokensFor or exchange of an identity", at: key,
                becauseOf: [["identities"], ["accounts", "identities"]])
            return
        }
        let parts = [(require, route.options.require)] + zip(require.items("anyOf"), route.options.require.anyOf)
        for (scope, part) in parts {
            for claim in part.claims where !providers.contains(where: { $0.keeps(claim.name) }) {
                scope.sectionWithDefaults("claims").report(
                    "requires a claim that no identity keeps: no session could use the route",
                    "add \(claim.name.description.escaped) to keep.claims of"
                        + " \(providers.map { "identities.\($0.name)" }.alternatives)",
                    at: claim.name.description)
            }
        }
    }
}
