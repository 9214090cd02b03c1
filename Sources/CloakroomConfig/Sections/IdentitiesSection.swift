import CloakroomCore
import CloakroomWire

/// `identities`: a mapping from names to OpenID Providers, at most 16; default none.
struct IdentitiesSection {
    /// The maximum number of identities.
    static let most = 16

    /// An identity. It has no configuration if a required key is missing or malformed.
    struct Item {
        let name: String
        let scope: ConfigScope
        let configuration: IdentityConfiguration?
    }

    /// In the order of the file.
    let items: [Item]

    var names: [String] { items.map(\.name) }
    /// Empty if one of them is invalid, which is reported.
    var configurations: [IdentityConfiguration] { items.compactMap(\.configuration) }

    init(from root: ConfigScope, upstreams: UpstreamsSection) {
        let named = root.named("identities")
        items = named.map { name, scope in
            scope.checkName(name)
            return Item(
                name: name, scope: scope,
                configuration: IdentityConfiguration(named: name, from: scope, upstreams: upstreams))
        }
        if named.count > Self.most {
            root.report(
                ConfigValueError("must be at most \(Self.most) identities, not \(named.count)", "remove some"),
                at: "identities")
        }
        checkVariables(root)
        checkIssuers()
        // An upstream that signs users in is an identity too.
        for item in items where upstreams.names.contains(item.name) {
            item.scope.report(ConfigValueError("conflicts with the upstream of this name", "rename one of them"))
        }
    }

    /// Variable names preserve neither case nor punctuation.
    private func checkVariables(_ root: ConfigScope) {
        var variables: [String: String] = [:]
        for item in items {
            guard let other = variables.updateValue(item.name, forKey: root.reading.variable([item.name])) else {
                continue
            }
            item.scope.report(
                ConfigValueError(
                    "conflicts with identity \(DiagnosticText.quoted(other)), which differs only in case or punctuation",
                    "rename one"))
        }
    }

    /// Two registrations at one provider have the same accounts, but sessions of one are not valid for the other.
    private func checkIssuers() {
        for (index, item) in items.enumerated() {
            guard let issuer = item.configuration?.issuer,
                let other = items[..<index].first(where: { $0.configuration?.issuer == issuer })
            else { continue }
            item.scope.warn(
                ConfigValueError(
                    "identity \(DiagnosticText.quoted(other.name)) has the same issuer",
                    "use one identity, unless they are different registrations"), at: "issuer")
        }
    }
}

extension IdentityConfiguration {
    /// One identity.
    /// - Returns: `nil` if a required key is missing or malformed.
    fileprivate init?(named name: String, from scope: ConfigScope, upstreams: UpstreamsSection) {
        let issuer = scope.required("issuer", as: .issuer)
        let label = scope.optional("label", as: .label)
        let client = IdentityClientConfiguration(from: scope.sectionWithDefaults("client"))
        let scopes = Self.scopes(scope)
        let parameters = Self.parameters(scope)
        let pushed = scope.value("pushed", as: .choice(), default: PushedRequests.auto)
        let algorithms = scope.list("algorithms", as: .signatureAlgorithm, default: SignatureAlgorithm.defaults)
        let skew = scope.value("clockSkew", as: .duration(.zero ... .seconds(300)), default: .seconds(30))
        let source = scope.value("user", as: .choice(), default: UserSource.idToken)
        let keep = KeptClaims(from: scope.sectionWithDefaults("keep"))
        let tokensFor = Self.tokensFor(scope, upstreams)
        let exchanges = Self.exchanges(scope, upstreams, tokensFor)
        let endsOn = scope.list("endsOn", as: .errorCode, default: ["invalid_grant"])
        let logout = Logout(from: scope.sectionWithDefaults("logout"))
        let channel = scope.sectionWithDefaults("backChannel")
        let backChannel = BackChannel(
            isEnabled: channel.value("enabled", as: .flag, default: true),
            maximumAge: channel.value(
                "maximumAge", as: .duration(.seconds(10) ... .seconds(600)), default: .seconds(120)))
        let tls = scope.sectionWithDefaults("tls")
        let caFile = tls.optional("caFile", as: tls.pemFile(.certificate))
        guard let issuer, let client else { return nil }
        self.init(
            name: name, issuer: issuer, client: client, scopes: scopes, parameters: parameters, pushed: pushed,
            algorithms: algorithms, clockSkew: skew, userSource: source, keep: keep, tokensFor: tokensFor,
            exchanges: exchanges, endsOn: endsOn, logout: logout, backChannel: backChannel, label: label,
            caFile: caFile)
    }

    private static func scopes(_ scope: ConfigScope) -> [String] {
        let scopes = scope.list("scopes", as: .scope, default: ["openid", "profile", "email"])
        if !scopes.contains("openid"), !scope.isInvalid("scopes") {
            scope.report(
                ConfigValueError("must contain openid: without it there is no ID token", "add openid"), at: "scopes")
        }
        return scopes
    }

    private static func parameters(_ scope: ConfigScope) -> [Parameter] {
        scope.entries("parameters") { section, name in
            if Parameter.ownNames.contains(name.lowercased()) {
                section.report(
                    ConfigValueError("\(name) is not supported: the gateway sets it", "leave it out"), at: name)
            }
            return section.optional(name, as: .text)
        }.map { Parameter($0.name, $0.value) }
    }

    private static func tokensFor(_ scope: ConfigScope, _ upstreams: UpstreamsSection) -> [Int] {
        var indices: [Int] = []
        for (item, name) in (scope.list("tokensFor", as: .text) ?? []).enumerated() {
            do {
                let index = try upstreams.index(of: name)
                if !indices.contains(index) { indices.append(index) }
            } catch {
                scope.report(error, item: item, of: "tokensFor")
            }
        }
        return indices
    }

    private static func exchanges(
        _ scope: ConfigScope, _ upstreams: UpstreamsSection, _ tokensFor: [Int]
    ) -> [Exchange] {
        scope.named("exchange").compactMap { name, scope -> Exchange? in
            let audience = scope.optional("audience", as: .text)
            let resource = scope.optional("resource", as: .endpoint)
            let requested = scope.optional("scope", as: .scopes)
            guard audience != nil || resource != nil else {
                if !scope.isInvalid("audience"), !scope.isInvalid("resource") {
                    scope.reading.reportMissing(
                        scope.path + ["audience"],
                        ConfigValueError("required key missing: audience or resource", "write one of them"))
                }
                return nil
            }
            do throws(ConfigValueError) {
                let index = try upstreams.index(of: name)
                if tokensFor.contains(index) {
                    scope.report(
                        ConfigValueError(
                            "conflicts with tokensFor, which sends the token itself to this upstream",
                            "keep one of the two"), at: audience == nil ? "resource" : "audience")
                }
                return Exchange(upstream: index, audience: audience, resource: resource, scope: requested)
            } catch {
                scope.report(error, at: audience == nil ? "resource" : "audience")
                return nil
            }
        }
    }
}

extension IdentityConfiguration.KeptClaims {
    fileprivate init(from scope: ConfigScope) {
        let defaults = Self()
        let claims = scope.list("claims", as: .claimName, default: defaults.claims, allowsEmpty: true)
        if claims.count > 32 {
            scope.report(
                ConfigValueError("must be at most 32 claims, not \(claims.count)", "keep those that are needed"),
                at: "claims")
        }
        self.init(
            claims: claims,
            bytes: scope.value("bytes", as: .size(0...16_384), default: defaults.bytes))
    }
}

extension IdentityConfiguration.Logout {
    fileprivate init(from scope: ConfigScope) {
        self.init(
            isEnabled: scope.value("provider", as: .flag, default: true),
            sendsHint: scope.value("hint", as: .flag, default: true),
            returnTo: scope.value("returnTo", as: .path, default: "/"))
        if !isEnabled, scope.isSet("hint"), sendsHint {
            scope.warn(ConfigValueError("has no effect with provider: false", "leave it out"), at: "hint")
        }
    }
}
