import CloakroomCore

/// The two names that every token of a provider must contain, and the tolerance for clocks.
package struct ProviderIdentity: Sendable, Equatable {
    /// The issuer, compared byte for byte (OpenID Connect Discovery §4.3).
    package let issuer: String
    /// The client id of the gateway at the provider.
    package let clientID: String
    /// The permitted difference between the clocks of the gateway and the provider.
    package let clockSkew: Duration
}

/// Reads the claims of a token, each with the rule for its type.
///
/// A claim with the value `null` counts as absent, except where its presence is forbidden. Strings are compared byte by
/// byte: `String` treats different spellings of a character as equal.
struct TokenClaims {
    /// The maximum length of `sid`, `jti` and `acr` in bytes.
    static let maxNameLength = 1_024
    /// The latest valid time: the year 10000, in seconds since the epoch.
    private static let latest = 253_402_300_800.0

    private let members: [JSONMemberName: JSONValue]

    init(_ members: [JSONMemberName: JSONValue]) {
        self.members = members
    }

    /// Whether a claim is present, even with the value `null`.
    func contains(_ name: JSONMemberName) -> Bool {
        members[name] != nil
    }

    subscript(name: JSONMemberName) -> JSONValue? {
        let value = members[name]
        return value == .null ? nil : value
    }

    /// Compares texts of a client or a provider. `==` compares their normalization forms: the cost of that is more than
    /// linear in the length of a text of combining marks.
    static func isSame(_ left: String, _ right: String) -> Bool {
        left.utf8.elementsEqual(right.utf8)
    }

    /// A time in seconds since the epoch, with fractions (RFC 7519 §2, NumericDate).
    /// - Returns: `nil` if the claim is absent.
    /// - Throws: `rejection` unless the value is a number from 0 to ``latest``.
    func time(_ name: JSONMemberName, or rejection: TokenRejection) throws(TokenRejection) -> WallTime? {
        guard let value = self[name] else { return nil }
        guard case .number(let seconds) = value, seconds.isFinite, seconds >= 0, seconds < Self.latest else {
            throw rejection
        }
        return WallTime(milliseconds: Int64(seconds * 1_000))
    }

    /// A string of 1 to ``maxNameLength`` bytes.
    /// - Returns: `nil` if the claim is absent.
    func name(_ name: JSONMemberName, or rejection: TokenRejection) throws(TokenRejection) -> String? {
        guard let value = self[name] else { return nil }
        guard case .string(let text) = value, (1...Self.maxNameLength).contains(text.utf8.count) else {
            throw rejection
        }
        return text
    }

    /// `sub`: 1 to 255 ASCII characters (OpenID Connect Core §2), visible ones.
    func subject() throws(TokenRejection) -> String? {
        guard let value = self["sub"] else { return nil }
        guard case .string(let text) = value, (1...255).contains(text.utf8.count),
            text.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
        else { throw .invalidSubject }
        return text
    }

    /// `iss` is the provider's issuer.
    func checkIssuer(_ provider: ProviderIdentity) throws(TokenRejection) {
        guard case .string(let issuer)? = self["iss"], Self.isSame(issuer, provider.issuer) else { throw .wrongIssuer }
    }

    /// `aud`.
    func audience() throws(TokenRejection) -> [String] { try names(of: "aud", or: .wrongAudience) }

    /// One name, or a list of names; empty if the claim is absent.
    func names(of claim: JSONMemberName, or rejection: TokenRejection) throws(TokenRejection) -> [String] {
        let values: [JSONValue] =
            switch self[claim] {
            case .array(let items)?: items
            case let single?: [single]
            case nil: []
            }
        let names = values.compactMap { if case .string(let name) = $0 { name } else { nil } }
        guard names.count == values.count else { throw rejection }
        return names
    }

    /// `aud` contains the gateway, and no other party unless `azp` is the gateway; `azp`, if present, is the gateway
    /// (OpenID Connect Core §3.1.3.7, steps 3 to 5).
    func checkAudience(_ provider: ProviderIdentity) throws(TokenRejection) {
        let others = try audience().filter { !Self.isSame($0, provider.clientID) }
        guard try others.count < audience().count else { throw .wrongAudience }
        let party = self["azp"]
        if let party {
            guard case .string(let name) = party, Self.isSame(name, provider.clientID) else {
                throw .wrongAuthorizedParty
            }
        }
        guard others.isEmpty || party != nil else { throw .otherAudience }
    }

    /// `exp` is later than now, with the tolerance for clocks.
    /// - Returns: `nil` if the claim is absent.
    func checkExpiry(_ provider: ProviderIdentity, now: WallTime) throws(TokenRejection) -> WallTime? {
        guard let expiry = try time("exp", or: .invalidExpiry) else { return nil }
        guard expiry > now - provider.clockSkew else { throw .expired }
        return expiry
    }

    /// `iat` is present and between two times.
    func checkIssuedAt(from earliest: WallTime?, to latest: WallTime) throws(TokenRejection) -> WallTime {
        guard let issuedAt = try time("iat", or: .invalidIssuedAt) else { throw .invalidIssuedAt }
        guard issuedAt <= latest else { throw .issuedInFuture }
        if let earliest, issuedAt < earliest { throw .issuedTooEarly }
        return issuedAt
    }

    /// `nbf`, if present, is not later than now, with the tolerance for clocks.
    func checkNotBefore(_ provider: ProviderIdentity, now: WallTime) throws(TokenRejection) {
        guard let notBefore = try time("nbf", or: .invalidNotBefore) else { return }
        guard notBefore <= now + provider.clockSkew else { throw .notYetValid }
    }
}
