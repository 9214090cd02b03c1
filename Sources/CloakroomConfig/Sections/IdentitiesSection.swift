import CloakroomCore
import CloakroomWire

/// `identities`: a mapping from names to OpenID Providers, at most 16; default none.
struct IdentitiesSection {
    /// The maximum number of identities.
    private static let most = 16

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
        items = root.items(named: "identities", of: ("identity", "identities"), most: Self.most).map { name, scope in
            Item(
                name: name, scope: scope,
                configuration: IdentityConfiguration(named: name, from: scope, upstreams: upstreams))
        }
        checkIssuers()
        // An upstream that signs users in is an identity too.
        for item in items where upstreams.names.contains(item.name) {
            item.scope.report("conflicts with the upstream of this name", "rename one of them")
        }
    }

    /// The identities among what users sign in with.
    func items(of sources: [SignInSource]) -> [Item] {
        sources.compactMap { if case .provider(let index) = $0 { items[index] } else { nil } }
    }

    /// Two registrations at one provider have the same accounts, but sessions of one are not valid for the other.
    private func checkIssuers() {
        for (index, item) in items.enumerated() {
            guard let issuer = item.configuration?.issuer,
                let other = items[..<index].first(where: { $0.configuration?.issuer == issuer })
            else { continue }
            item.scope.warn(
                "identity \(other.name.quoted) has the same issuer",
                "use one identity, unless they are different registrations", at: "issuer")
        }
    }
}

extension IdentityConfiguration: ConfigSection {
    /// The keys of an identity between `client` and `tokensFor`, which depend on other values.
    static let keys: [Key<Self>] = [
        Key { $1.readScopes($0) },
        Key { $1.parameters = parameters($0) },
        Key { $1.passParameters = passParameters($0) },
        Key("pushed", \.pushed, .choice()),
        Key { $1.algorithms = $0.list("algorithms", as: .signatureAlgorithm, default: $1.algorithms) },
        Key("clockSkew", \.clockSkew, .duration(.zero ... .seconds(300))),
        Key("user", \.userSource, .choice()),
        Key(section: "keep", \.keep),
    ]

    /// One identity.
    /// - Returns: `nil` if a required key is missing or malformed.
    fileprivate init?(named name: String, from scope: ConfigScope, upstreams: UpstreamsSection) {
        let issuer = scope.required("issuer", as: .issuer)
        let label = scope.optional("label", as: .label)
        let client = IdentityClientConfiguration(from: scope.sectionWithDefaults("client"))
        // Without issuer or client, the other keys are read for their errors only.
        self.init(
            name: name, issuer: issuer ?? "",
            client: client ?? IdentityClientConfiguration(id: "", authentication: .basic(Secret(""))))
        self.label = label
        read(from: scope)
        // Only a warning: in a cluster, the network often encrypts what the targets do not.
        tokensFor = upstreams.tokensFor(scope.list("tokensFor", as: .text) ?? [], in: scope) { index in
            if let problem = upstreams.clearTextProblem(index) { scope.warn(problem, at: "tokensFor") }
        }
        exchanges = Self.exchanges(scope, upstreams, tokensFor)
        endsOn = scope.list("endsOn", as: .errorCode, default: endsOn)
        logout.read(from: scope.sectionWithDefaults("logout"))
        let tls = scope.sectionWithDefaults("tls")
        caFile = tls.optional("caFile", as: tls.pemFile(.certificate))
        accessTokens = AccessTokens(from: scope.section("accessTokens"), clientID: client?.id)
        let places = scope.section("endpoints")
        endpoints.read(from: places)
        if issuer != nil { endpoints.check(places, against: self) }
        if issuer == nil || client == nil { return nil }
    }

    private mutating func readScopes(_ scope: ConfigScope) {
        scopes = scope.list("scopes", as: .scope, default: scopes)
        if !scopes.contains("openid"), !scope.isInvalid("scopes") {
            scope.report("must contain openid: without it there is no ID token", "add openid", at: "scopes")
        }
    }

    private static func parameters(_ scope: ConfigScope) -> [Parameter] {
        scope.entries("parameters") { section, name in
            if Parameter.ownNames.contains(name.lowercased()) {
                section.report("\(name) is not supported: the gateway sets it", "leave it out", at: name)
            }
            return section.optional(name, as: .text)
        }.map { Parameter($0.name, $0.value) }
    }

    private static func passParameters(_ scope: ConfigScope) -> [PassedParameter] {
        scope.entries("passParameters") { section, name -> PassedParameter.Values? in
            if PassedParameter.reservedNames.contains(name.lowercased()) {
                section.report("\(name) is not supported: the gateway sets it", "leave it out", at: name)
            }
            if case .list? = section.reading.tree[section.path + [name]]?.shape {
                return section.nonEmptyList(name, as: .text).map { .listed($0) }
            }
            return section.optional(name, as: .passedLength).map { .length($0) }
        }.map { PassedParameter($0.name, $0.value) }
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
                    scope.reportMissing("audience", "audience or resource", "write one of them")
                }
                return nil
            }
            do throws(ConfigValueError) {
                let index = try upstreams.index(of: name)
                if let problem = upstreams.clearTextProblem(index) {
                    scope.warn(problem, at: audience == nil ? "resource" : "audience")
                }
                if tokensFor.contains(index) {
                    scope.report(
                        "conflicts with tokensFor, which sends the token itself to this upstream",
                        "keep one of the two", at: audience == nil ? "resource" : "audience")
                }
                return Exchange(upstream: index, audience: audience, resource: resource, scope: requested)
            } catch {
                scope.report(error, at: audience == nil ? "resource" : "audience")
                return nil
            }
        }
    }
}

extension IdentityConfiguration.KeptClaims: ConfigSection {
    /// `keep` of an identity.
    static let keys: [Key<Self>] = [
        Key { $1.claims = $0.list("claims", as: .claimName, default: $1.claims, allowsEmpty: true) },
        Key("bytes", \.bytes, .size(0...16_384)),
    ]

    func check(_ scope: ConfigScope) {
        scope.checkCount(claims.count, most: 32, "claims", "keep those that are needed", at: "claims")
    }
}

extension IdentityConfiguration.AccessTokens: ConfigSection {
    /// `accessTokens` of an identity.
    static let keys: [Key<Self>] = [
        Key { $1.audience = $0.requiredList("audience", as: .text) ?? [] },
        Key { $1.types = $0.list("types", as: .choice(of: [.accessToken, .jwt]), default: $1.types) },
        Key("maximumAge", \.maximumAge, .duration(.seconds(60) ... .seconds(86_400))),
        Key(list: "clients", \.clients, .clientID),
        Key("dpop", \.dpop, .choice()),
        Key { $1.readIntrospection($0) },
    ]

    private mutating func readIntrospection(_ scope: ConfigScope) {
        let section = scope.section("introspection")
        var given = IdentityConfiguration.Introspection()
        given.read(from: section)
        guard section.isPresent else { return }
        introspection = given
        if scope.isSet("types") { scope.warn("has no effect with introspection", "leave it out", at: "types") }
    }

    /// - Returns: `nil` if the section is absent.
    fileprivate init?(from scope: ConfigScope, clientID: String?) {
        self.init()
        read(from: scope)
        let mistakes = [
            ("audience", audience, ", the audience of ID tokens", "write the name that the provider has for the API"),
            ("clients", clients, ": the gateway's own tokens have leaked", "remove it"),
        ]
        for (key, names, reason, remedy) in mistakes where clientID.map(names.contains) == true {
            scope.report("must not contain client.id\(reason)", remedy, at: key)
        }
        if types.contains(.jwt) {
            scope.warn(
                "accepts tokens whose type is not that of access tokens", "leave JWT out if the provider issues at+jwt",
                at: "types")
        }
        guard scope.isPresent else { return nil }
    }
}

extension IdentityConfiguration.Introspection: ConfigSection {
    /// `accessTokens.introspection` of an identity.
    static let keys: [Key<Self>] = [
        Key("cache", \.cache, .duration(.zero ... .seconds(300))),
        Key("rejected", \.rejected, .duration(.zero ... .seconds(60))),
        Key("timeout", \.timeout, .duration(.milliseconds(100) ... .seconds(10))),
    ]
}

extension IdentityConfiguration.Logout: ConfigSection {
    /// `logout` of an identity.
    static let keys: [Key<Self>] = [
        Key("provider", \.isEnabled, .flag),
        Key("hint", \.sendsHint, .flag),
        Key("returnTo", \.returnTo, .path),
    ]

    func check(_ scope: ConfigScope) {
        guard !isEnabled, scope.isSet("hint"), sendsHint else { return }
        scope.warn("has no effect with provider: false", "leave it out", at: "hint")
    }
}
