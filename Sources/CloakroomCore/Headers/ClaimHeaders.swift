/// A request field that contains a claim of the session's user.
public struct ClaimHeader: Sendable, Equatable {
    /// The field name, a token of RFC 9110 §5.6.2.
    public var name: String
    /// The claim; `sub` and `iss` always exist.
    public var claim: ClaimName
    /// The character between the items of a list: visible ASCII without letters, digits and `%`; `nil` if the claim must
    /// not be a list.
    public var separator: UInt8?

    /// Creates a header.
    public init(_ name: String, claim: ClaimName, separator: UInt8? = nil) {
        self.name = name
        self.claim = claim
        self.separator = separator
    }
}

/// The claim headers of one upstream in one configuration: which fields a request of a session gets.
///
/// Every configured name is removed from what clients send, on every route and in any spelling, before a field is set.
/// A session has its fields rendered once for each object of this class; see ``SessionClaims/fields(for:)``.
public final class ClaimHeaders: Sendable {
    /// The maximum length of all fields of a request in bytes. Most servers accept 8 to 16 KiB.
    package static let maxLength = 16_384

    private let headers: [ClaimHeader]

    /// Creates the headers of an upstream.
    /// - Returns: `nil` if it has none.
    public init?(_ upstream: UpstreamConfiguration) {
        guard !upstream.claimHeaders.isEmpty else { return nil }
        headers = upstream.claimHeaders
    }

    /// Renders the fields for a session's claims. A claim that is absent, `null` or empty has no field.
    package func fields(of claims: JSONValue) -> SessionClaims.HeaderFields {
        var lines: [UInt8] = []
        for header in headers {
            let value = ClaimFieldValue.of(claims[claim: header.claim], separator: header.separator)
            if case .value(let text) = value, !text.isEmpty { lines += Array("\(header.name): \(text)\r\n".utf8) }
            if value == .unsupported || lines.count > Self.maxLength {
                return SessionClaims.HeaderFields(self, lines: [], unrepresentable: header.claim.description)
            }
        }
        return SessionClaims.HeaderFields(self, lines: lines)
    }

    /// The name of a claim that a claim header of an upstream cannot contain: an object, a list without a configured
    /// separator, a number that is not exact, or one that makes the fields too long. Such a user cannot be signed in, because an upstream that does
    /// not receive a claim could treat the user as another one.
    /// - Returns: `nil` if all claims can be written.
    public static func unrepresentableClaim(
        of provenance: SessionProvenance, upstreams: [UpstreamConfiguration]
    ) -> String? {
        let claims = SessionClaims(provenance)
        for headers in upstreams.lazy.compactMap(ClaimHeaders.init) {
            if let name = headers.fields(of: claims.values).unrepresentable { return name }
        }
        return nil
    }
}

extension GatewayConfiguration {
    /// The names of all claim headers. No client can send them, to any upstream.
    public var claimHeaderNames: [String] { upstreams.flatMap { $0.claimHeaders.map(\.name) } }
}
