/// A request field that contains a claim of the session's user.
public struct ClaimHeader: Sendable, Equatable {
    /// The field name, a token of RFC 9110 §5.6.2.
    public var name: String
    /// The claim; `sub` and `iss` always exist.
    public var claim: ClaimName
    /// The character between the items of a list: visible ASCII without letters, digits and `%`; `nil` if the claim must
    /// not be a list.
    public var separator: UInt8?

    package init(_ name: String, claim: ClaimName, separator: UInt8? = nil) {
        self.name = name
        self.claim = claim
        self.separator = separator
    }
}

/// The claim headers and the assertion of one upstream in one configuration: which fields a request of a session gets.
///
/// Every configured name is removed from what clients send, on every route and in any spelling, before a field is set.
/// A session has its fields rendered once for each object of this class; see ``SessionClaims/fields(for:)``, and the
/// assertion signed twice in its lifetime; see ``SessionClaims/lines(for:of:at:)``.
public final class ClaimHeaders: Sendable {
    /// The maximum length of all fields of a request in bytes. Most servers accept 8 to 16 KiB.
    package static let maxLength = 16_384

    private let headers: [ClaimHeader]
    let assertion: AssertionConfiguration?
    let issuer: AssertionIssuer?

    /// Creates the headers of an upstream.
    /// - Parameter issuer: Signs the assertions; without one there are none.
    /// - Returns: `nil` if it has none.
    public init?(_ upstream: UpstreamConfiguration, issuer: AssertionIssuer? = nil) {
        guard !upstream.claimHeaders.isEmpty || upstream.assertion != nil else { return nil }
        headers = upstream.claimHeaders
        assertion = upstream.assertion
        self.issuer = issuer
    }

    /// Renders the fields for a session's claims. A claim that is absent, `null` or empty has no field.
    package func fields(of claims: SessionClaims) -> SessionClaims.HeaderFields {
        var lines: [UInt8] = []
        let limit = Self.maxLength - (assertion == nil ? 0 : AssertionConfiguration.maxLength)
        for header in headers {
            let value = ClaimFieldValue.of(claims.values[claim: header.claim], separator: header.separator)
            if case .value(let text) = value, !text.isEmpty { lines += Array("\(header.name): \(text)\r\n".utf8) }
            if value == .unsupported || lines.count > limit {
                return SessionClaims.HeaderFields(self, lines: [], unrepresentable: header.claim.description)
            }
        }
        guard let assertion else { return SessionClaims.HeaderFields(self, lines: lines) }
        let statement = assertion.statement(claims)
        guard statement.utf8.count <= AssertionConfiguration.maxStatement else {
            let name = assertion.claims.first?.description ?? "sub"
            return SessionClaims.HeaderFields(self, lines: [], unrepresentable: name)
        }
        return SessionClaims.HeaderFields(self, lines: lines, statement: statement)
    }

    /// The name of a claim that a claim header of an upstream cannot contain: an object, a list without a configured
    /// separator, a number that is not exact, or one that makes the fields or the assertion too long. Such a user cannot
    /// be signed in, because an upstream that does not receive a claim could treat the user as another one.
    /// - Returns: `nil` if all claims can be written.
    public static func unrepresentableClaim(
        of provenance: SessionProvenance, upstreams: [UpstreamConfiguration]
    ) -> String? {
        let claims = SessionClaims(provenance)
        for headers in upstreams.lazy.compactMap({ ClaimHeaders($0) }) {
            if let name = headers.fields(of: claims).unrepresentable { return name }
        }
        return nil
    }
}

extension UpstreamConfiguration {
    /// The names of its fields with claims of the user: claim headers, and that of the assertion.
    public var claimHeaderNames: [String] { claimHeaders.map(\.name) + (assertion.map { [$0.header] } ?? []) }
}

extension GatewayConfiguration {
    /// The names of all claim headers and assertions. No client can send them, to any upstream.
    public var claimHeaderNames: [String] { upstreams.flatMap(\.claimHeaderNames) }
}
