import CloakroomCore

extension ProviderEndpoints: ConfigSection {
    /// `endpoints` of an identity.
    static let keys: [Key<Self>] = [
        Key { $1.readBase($0) },
        Key("host", \.host, .choice()),
        Key { $1.fixed = Fixed(from: $0) },
    ]

    func check(_ scope: ConfigScope) {
        guard base == nil, scope.isSet("host"), !scope.isInvalid("base") else { return }
        scope.warn("has no effect without base", "leave it out", at: "host")
    }

    private mutating func readBase(_ scope: ConfigScope) {
        base = scope.optional("base", as: .origin).flatMap { WebOrigin($0) }
        let isPlaintext = scope.value("plaintext", as: .flag, default: false)
        guard let base, EndpointURL(base.description) == nil else {
            if isPlaintext, !scope.isInvalid("base") {
                scope.warn("has no effect without an http base at another machine", "leave it out", at: "plaintext")
            }
            return
        }
        if isPlaintext {
            scope.warn(
                "the client secret and tokens are sent unencrypted to \(base)",
                "write an https origin; tls.caFile trusts a certificate of your own authority", at: "base")
        } else if !scope.isInvalid("plaintext") {
            scope.report(
                "must be an https origin: the client secret and tokens would be sent unencrypted",
                "write https, or plaintext: true if the network between them is trusted", at: "base")
        }
    }

    /// Validates the endpoints against the other keys of the identity.
    func check(_ scope: ConfigScope, against identity: IdentityConfiguration) {
        guard let fixed else { return }
        let called: [(String, EndpointURL?)] = [
            ("token", fixed.token), ("keys", fixed.keys), ("userInfo", fixed.userInfo),
            ("revocation", fixed.revocation), ("introspection", fixed.introspection), ("pushed", fixed.pushed),
        ]
        for case (let name, let url?) in called {
            let named = publicURL(url, issuer: identity.issuer)
            if let named, permitsCall(to: named, issuer: identity.issuer) { continue }
            scope.report("must be at the issuer or at base", "write its public URL, or leave base out", at: name)
        }
        if fixed.userInfo == nil, identity.userSource == .userInfo, !scope.isInvalid("userInfo") {
            scope.reportMissing("userInfo", "user is userInfo", "write its URL, or user: idToken")
        }
        if fixed.introspection == nil, identity.accessTokens?.introspection != nil, !scope.isInvalid("introspection") {
            scope.reportMissing(
                "introspection", "accessTokens.introspection is set", "write its URL, or leave that out")
        }
        if fixed.pushed == nil, identity.pushed == .always, !scope.isInvalid("pushed") {
            scope.reportMissing("pushed", "pushed is always", "write its URL, or pushed: auto")
        }
    }
}

extension ProviderEndpoints.Fixed {
    /// The endpoints that replace the metadata.
    /// - Returns: `nil` if the metadata are fetched, or a required key is missing or malformed.
    fileprivate init?(from scope: ConfigScope) {
        let isFetched = scope.value("metadata", as: .flag, default: true)
        func url(_ name: String, isRequired: Bool = false) -> EndpointURL? {
            let url = scope.optional(name, as: .endpoint).flatMap { EndpointURL($0) }
            if isFetched {
                if scope.isSet(name), !scope.isInvalid("metadata") {
                    scope.report("conflicts with metadata: true", "leave it out, or write metadata: false", at: name)
                }
            } else if isRequired, !scope.isSet(name) {
                scope.reportMissing(name, "metadata is false", "write the URL of the provider's endpoint")
            }
            return url
        }
        let authorization = url("authorization", isRequired: true)
        let token = url("token", isRequired: true)
        let keys = url("keys", isRequired: true)
        let (userInfo, revocation, pushed) = (url("userInfo"), url("revocation"), url("pushed"))
        let (introspection, endSession) = (url("introspection"), url("endSession"))
        guard !isFetched, let authorization, let token, let keys else { return nil }
        self.init(authorization: authorization, token: token, keys: keys)
        self.userInfo = userInfo
        self.revocation = revocation
        self.introspection = introspection
        self.pushed = pushed
        self.endSession = endSession
    }
}
