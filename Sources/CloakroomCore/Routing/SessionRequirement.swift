/// What a route requires of a session besides its existence. All parts have to be met.
public struct SessionRequirement: Sendable, Equatable {
    /// The required claims.
    public var claims: [RequiredClaim]
    /// The acceptable authentication contexts, most preferred first (OpenID Connect Core §2); empty for any.
    public var acr: [String]
    /// The maximum time since the user authenticated at the provider, 1 s to 1 day; `nil` for any.
    public var maxAge: Duration?

    package init(claims: [RequiredClaim] = [], acr: [String] = [], maxAge: Duration? = nil) {
        self.claims = claims
        self.acr = acr
        self.maxAge = maxAge
    }

    /// No requirement.
    public static let none = SessionRequirement()
    /// Whether nothing is required.
    public var isEmpty: Bool { claims.isEmpty && !requiresStepUp }
    /// Whether a new login can be necessary.
    public var requiresStepUp: Bool { !acr.isEmpty || maxAge != nil }

    /// Whether every session that meets the requirement clearly meets the other one too.
    package func implies(_ other: SessionRequirement) -> Bool {
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
    /// Claims are judged first: a user without them would authenticate again for nothing.
    /// - Parameters:
    ///   - kept: The claims of the session: an object.
    ///   - acr: The authentication context of the session; `nil` for unknown.
    ///   - authenticatedAt: When the user authenticated at the provider; `nil` for unknown, which is too long ago.
    ///   - skew: The permitted difference of the clocks, added to ``maxAge``.
    package func judge(
        claims kept: JSONValue, acr: String?, authenticatedAt: WallTime?, now: WallTime, skew: Duration = .zero
    ) -> Verdict {
        for claim in claims where !claim.isMet(by: kept) { return .missingClaim(claim.name.description) }
        if !self.acr.isEmpty {
            guard let acr, self.acr.contains(where: { $0.utf8.elementsEqual(acr.utf8) }) else { return .stepUp }
        }
        return isRecent(authenticatedAt, now: now, skew: skew) ? .permitted : .stepUp
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
