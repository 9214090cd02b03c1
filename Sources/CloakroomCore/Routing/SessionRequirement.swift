/// What a route requires of a session besides its existence. All parts have to be met.
public struct SessionRequirement: Sendable, Hashable {
    /// The required claims.
    public var claims: [RequiredClaim]
    /// The acceptable authentication contexts, most preferred first (OpenID Connect Core §2); empty for any.
    public var acr: [String]
    /// The maximum time since the user authenticated at the provider, 1 s to 1 day; `nil` for any.
    public var maxAge: Duration?
    /// Alternatives, of which one has to be met too: at most 8, without alternatives of their own. Empty for none.
    public var anyOf: [SessionRequirement]
    /// Whether the session has to be bound to a device. `false` in alternatives.
    public var device: Bool

    package init(
        claims: [RequiredClaim] = [], acr: [String] = [], maxAge: Duration? = nil, anyOf: [SessionRequirement] = [],
        device: Bool = false
    ) {
        self.device = device
        self.claims = claims
        self.acr = acr
        self.maxAge = maxAge
        self.anyOf = anyOf
    }

    /// No requirement.
    public static let none = SessionRequirement()
    /// Whether nothing is required.
    public var isEmpty: Bool { !judgesClaims && !device }
    /// Whether more is required than a device.
    var judgesClaims: Bool { !claims.isEmpty || !anyOf.isEmpty || requiresStepUp }
    /// Whether a new login can be necessary.
    public var requiresStepUp: Bool { !acr.isEmpty || maxAge != nil || anyOf.contains(where: \.requiresStepUp) }
    /// Whether the claims of a session can decide.
    var dependsOnClaims: Bool { !claims.isEmpty || anyOf.contains(where: \.dependsOnClaims) }

    /// Whether every session that meets the requirement clearly meets the other one too.
    package func implies(_ other: SessionRequirement) -> Bool {
        let alternatives = anyOf.isEmpty ? [self] : anyOf.map(adding)
        guard device || !other.device else { return false }
        return alternatives.allSatisfy { mine in
            mine.impliesParts(of: other) && (other.anyOf.isEmpty || other.anyOf.contains(where: mine.impliesParts(of:)))
        }
    }

    /// The requirement with the parts of an alternative in place of the alternatives. A session that meets both meets it.
    private func adding(_ alternative: SessionRequirement) -> SessionRequirement {
        SessionRequirement(
            claims: claims + alternative.claims, acr: alternative.acr.isEmpty ? acr : alternative.acr,
            maxAge: [maxAge, alternative.maxAge].compactMap(\.self).min())
    }

    /// Whether the parts but the alternatives imply those of the other one.
    private func impliesParts(of other: SessionRequirement) -> Bool {
        guard other.claims.allSatisfy({ theirs in claims.contains { $0.implies(theirs) } }) else { return false }
        let contexts = Set(other.acr.map { Array($0.utf8) })
        guard contexts.isEmpty || !acr.isEmpty && acr.allSatisfy({ contexts.contains(Array($0.utf8)) }) else {
            return false
        }
        guard let limit = other.maxAge else { return true }
        return maxAge.map { $0 <= limit } ?? false
    }
}

extension SessionRequirement {
    /// The judgement about a session.
    package enum Verdict: Sendable, Equatable {
        /// The request may be forwarded.
        case permitted
        /// 403: a claim is missing or has no acceptable value. A new login does not change this. The client is not
        /// informed which claim it is; the log is.
        case missingClaim(String)
        /// 401: the user has to authenticate again (RFC 9470 §3).
        case stepUp
    }

    /// Judges a session.
    ///
    /// Claims are judged first: a user without them would authenticate again for nothing. Each alternative is judged by
    /// itself; if none is met, a new login helps if it does with one of them.
    /// - Parameters:
    ///   - kept: The claims of the session: an object.
    ///   - acr: The authentication context of the session; `nil` for unknown.
    ///   - authenticatedAt: When the user authenticated at the provider; `nil` for unknown, which is too long ago.
    ///   - skew: The permitted difference of the clocks, added to ``maxAge``.
    package func judge(
        claims kept: JSONValue, acr: String?, authenticatedAt: WallTime?, now: WallTime, skew: Duration = .zero
    ) -> Verdict {
        for claim in claims where !claim.isMet(by: kept) { return .missingClaim(claim.name.description) }
        let isAcceptable =
            self.acr.isEmpty
            || acr.map { acr in self.acr.contains { $0.utf8.elementsEqual(acr.utf8) } } ?? false
        let own: Verdict =
            isAcceptable && isRecent(authenticatedAt, now: now, skew: skew) ? .permitted : .stepUp
        guard !anyOf.isEmpty else { return own }
        let verdicts = anyOf.map {
            $0.judge(claims: kept, acr: acr, authenticatedAt: authenticatedAt, now: now, skew: skew)
        }
        if verdicts.contains(.permitted) { return own }
        return verdicts.contains(.stepUp) ? .stepUp : verdicts[0]
    }

    /// What a new login has to request so that a session meets the requirement, without claims: that of the requirement
    /// and of one alternative. The alternatives whose claims are met come first, and of these one without a login.
    /// - Parameter kept: The claims of the session; `nil` without one.
    package func stepUp(for kept: JSONValue?) -> SessionRequirement {
        let met = anyOf.filter { $0.claims.allSatisfy { $0.isMet(by: kept ?? .null) } }
        let chosen = met.first { !$0.requiresStepUp } ?? met.first ?? anyOf.first(where: \.requiresStepUp)
        var result = adding(chosen ?? .none)
        result.claims = []
        return result
    }

    /// Whether an authentication is not longer ago than ``maxAge``.
    func isRecent(_ authenticatedAt: WallTime?, now: WallTime, skew: Duration) -> Bool {
        guard let maxAge else { return true }
        guard let authenticatedAt else { return false }
        return now - authenticatedAt <= maxAge + skew && authenticatedAt - now <= skew
    }

    /// The value of `WWW-Authenticate` for a 401 of ``Verdict/stepUp`` (RFC 9470 §3). The configuration permits only
    /// values without quotation marks and backslashes.
    package var challenge: String {
        var text = "Bearer error=\"insufficient_user_authentication\""
        text += ", error_description=\"A different authentication level is required\""
        if !acr.isEmpty { text += ", acr_values=\"\(acr.joined(separator: " "))\"" }
        if let maxAge { text += ", max_age=\"\(maxAge.components.seconds)\"" }
        return text
    }
}

/// What a route does with a request that has no session.
public enum MissingSessionAction: String, Sendable, Hashable, CaseIterable {
    /// 401.
    case reject
    /// Navigations are redirected to a provider; all other requests get 401.
    case login
}
