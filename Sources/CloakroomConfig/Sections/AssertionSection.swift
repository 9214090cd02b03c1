import CloakroomCore

extension AssertionConfiguration {
    /// `assertion` of an upstream.
    /// - Returns: `nil` if the section is absent, or a required key is missing or malformed.
    init?(from scope: ConfigScope) {
        let header = scope.required("header", as: Self.headerName)
        let audience = scope.required("audience", as: .clientID)
        let lifetime = scope.value("lifetime", as: .duration(.seconds(20) ... .seconds(600)), default: .seconds(60))
        let claims = scope.list("claims", as: .claimName, default: [], allowsEmpty: true)
        scope.checkCount(claims.count, most: ClaimHeadersSection.most, "claims", at: "claims")
        guard scope.isPresent, let header, let audience else { return nil }
        self.init(header: header, audience: audience)
        (self.lifetime, self.claims) = (lifetime, claims)
    }

    private static let headerName = ValueFormat("name of a field") { text throws(ConfigValueError) in
        try ClaimHeadersSection.check(text)
        return text
    }
}

/// Validates assertions against the other fields of upstreams, the identities and the secrets that sign them.
enum AssertionRules {
    /// - Parameter session: `session`, with the secrets.
    static func check(
        _ upstreams: UpstreamsSection, _ identities: IdentitiesSection, secrets: [Secret], session: ConfigScope
    ) {
        let others = upstreams.tokenHeaders + upstreams.configurations.flatMap { $0.claimHeaders.map(\.name) }
        for (upstream, scope) in zip(upstreams.configurations, upstreams.scopes) {
            guard let assertion = upstream.assertion else { continue }
            let section = scope.section("assertion")
            let folded = FieldNameSet.folded(assertion.header)
            if let other = others.first(where: { FieldNameSet.folded($0) == folded }) {
                section.report(
                    "conflicts with \(other), another field of an upstream", "write another name", at: "header")
            }
            if let other = upstreams.configurations.first(where: {
                $0.name != upstream.name && $0.assertion?.audience == assertion.audience
            }) {
                section.warn(
                    "is also that of upstream \(other.name.quoted): each could use the assertions that the other gets",
                    "write another one, unless both are the same service", at: "audience")
            }
            if secrets.isEmpty, !session.isInvalid("secrets"), !session.isInvalid("secretsFile") {
                section.report(
                    "requires session.secrets: the key that signs is derived from them",
                    "write session.secrets, the same ones for all replicas", at: "header",
                    becauseOf: [session.path + ["secrets"]])
            }
            guard !identities.items.isEmpty else {
                section.warn(
                    "has no effect without identities: other sessions have no claims",
                    "leave it out, or add identities", at: "header")
                continue
            }
            for (index, claim) in assertion.claims.enumerated() {
                identities.check(claim, "the assertion would not state it", in: section, at: "claims", item: index)
            }
        }
    }
}
