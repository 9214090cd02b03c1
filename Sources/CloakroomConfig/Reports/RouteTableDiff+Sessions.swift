import CloakroomCore

extension RouteTableDiff {
    /// The sessions that a route accepts now and did not before; `nil` for none, and if it requires none.
    static func addedSessions(
        from before: Route, _ old: GatewayConfiguration, to after: Route, _ new: GatewayConfiguration
    ) -> String? {
        guard before.requiresAuthorization, after.requiresAuthorization else { return nil }
        let known = Set(old.sources(of: before).map(\.name))
        let sources = new.sources(of: after).map(\.name).filter { !known.contains($0) }
        var texts = sources.isEmpty ? [] : ["also sessions of \(sources.joined(separator: ", "))"]
        let tokens = Set(new.tokenSources(of: after)).subtracting(old.tokenSources(of: before)).sorted()
        if !tokens.isEmpty { texts.append("also access tokens of \(tokens.joined(separator: ", "))") }
        if after.credentials.contains(.basic), !before.credentials.contains(.basic) {
            texts.append("also names and passwords (Basic)")
        }
        if !after.require.implies(before.require) {
            let (lost, now) = (before.require.texts, after.require.texts)
            texts += now.filter { !lost.contains($0) }
            texts.append("was \(lost.filter { !now.contains($0) }.joined(separator: ", "))")
        }
        return texts.isEmpty ? nil : texts.joined(separator: ", ")
    }
}

extension SessionRequirement {
    /// What is required of the authentication, one text for each part.
    var stepUpTexts: [String] {
        (acr.isEmpty ? [] : ["acr in [\(acr.joined(separator: ", "))]"])
            + (maxAge.map { ["authentication at most \(ValueFormat<Duration>.rendered($0)) plus clockSkew ago"] } ?? [])
    }

    /// The alternatives in one text, as a list of one; empty without alternatives.
    var alternativeTexts: [String] {
        let texts = anyOf.map { "(\($0.texts.joined(separator: ", ")))" }
        return texts.isEmpty ? [] : ["one of \(texts.joined(separator: ", "))"]
    }

    fileprivate var texts: [String] {
        (device ? ["a session bound to a device"] : []) + claims.map(\.summary) + stepUpTexts + alternativeTexts
    }
}

extension GatewayConfiguration {
    /// Whose sessions may use a route: those of the upstream that signs users in, with its index, and of identities, with
    /// the exchange of their tokens for the route's upstream; `nil` if it gets the session's own token, or none.
    func sources(of route: Route) -> [(name: String, issuer: Int?, exchange: IdentityConfiguration.Exchange?)] {
        let (isBearer, upstream) = (route.inject.contains(.bearer), route.upstream ?? -1)
        var sources: [(name: String, issuer: Int?, exchange: IdentityConfiguration.Exchange?)] = []
        if let issuer = accounts.upstream, !isBearer || accounts.receivesToken(upstream) {
            sources.append((upstreams[issuer].name, issuer, nil))
        }
        for identity in providers {
            let exchange = isBearer ? identity.exchanges.first { $0.upstream == upstream } : nil
            guard !isBearer || exchange != nil || identity.tokensFor.contains(upstream) else { continue }
            sources.append((identity.name, nil, exchange))
        }
        return sources
    }

    /// The identities whose access tokens of clients a route accepts.
    func tokenSources(of route: Route) -> [String] {
        let names = sources(of: route).map(\.name)
        return !route.credentials.acceptsTokens
            ? [] : providers.filter { $0.accessTokens != nil && names.contains($0.name) }.map(\.name)
    }

    /// The tokens of others that the upstream of a route gets, and its name.
    func tokens(sentBy route: Route) -> [String] {
        guard route.inject.contains(.bearer), let upstream = route.upstream else { return [] }
        return sources(of: route).filter { $0.issuer != upstream }.map { source in
            let purpose = source.exchange.map { " exchanged for \($0.audience ?? $0.resource ?? "")" } ?? ""
            let scope = source.exchange?.scope.map { " with scope \($0)" } ?? ""
            return "tokens of \(source.name)\(purpose)\(scope) to \(upstreams[upstream].name)"
        }
    }
}
