/// A signed statement about the user of a session, in a request field of one upstream: a JWT (RFC 7519).
public struct AssertionConfiguration: Sendable, Equatable {
    /// The maximum length of ``statement(_:)`` in bytes: a token is then at most ``maxLength`` long.
    package static let maxStatement = 2_048
    static let maxLength = 4_096

    /// The field name, a token of RFC 9110 §5.6.2.
    public var header: String
    /// `aud`, 1 to 255 bytes: no other upstream should accept it.
    public var audience: String
    /// The time until `exp`, 20 s to 10 min. An assertion is sent for the first half of it.
    public var lifetime: Duration = .seconds(60)
    /// The members of `claims`, at most 32.
    public var claims: [ClaimName] = []

    package init(header: String, audience: String) {
        (self.header, self.audience) = (header, audience)
    }

    /// The members of an assertion that the user's claims determine, as JSON without braces.
    func statement(_ claims: SessionClaims) -> String {
        var members = [
            ("sub", JSONString.quoted(claims.values[claim: "sub"]?.string ?? "")),
            ("idp", JSONString.quoted(claims.values[claim: "iss"]?.string ?? "")),
            ("claims", claims.values.text(selecting: self.claims)),
        ]
        if let time = claims.authenticatedAt { members.append(("auth_time", "\(time.milliseconds / 1_000)")) }
        if let acr = claims.acr { members.append(("acr", JSONString.quoted(acr))) }
        return members.map { "\"\($0)\":\($1)" }.joined(separator: ",")
    }
}

/// Signs assertions with a key that all replicas have.
public protocol AssertionSigning: Sendable {
    /// A name by which one audience knows a session: the same in each assertion, and another one for other audiences.
    func name(of session: SessionKey, for audience: String) -> String
    /// Signs claims, a JSON object.
    /// - Returns: The token in compact form (RFC 7515 §3.1); `nil` if there is no signature.
    func sign(_ claims: String) -> String?
}

/// Makes the assertions for one upstream.
public struct AssertionIssuer: Sendable {
    private let signer: any AssertionSigning
    /// `iss` at each site: its public URL.
    private let names: [String?]
    private let onSigned: @Sendable () -> Void

    /// - Parameter onSigned: Called for each signature.
    public init(
        _ signer: any AssertionSigning, _ configuration: GatewayConfiguration, onSigned: @escaping @Sendable () -> Void
    ) {
        self.signer = signer
        let sites = configuration.sites.map(\.publicURL)
        names = sites.isEmpty ? [configuration.accounts.publicURL] : sites
        self.onSigned = onSigned
    }

    /// The field line with a new assertion; empty if there is none: upstreams that require one reject the request.
    func line(
        _ assertion: AssertionConfiguration, _ statement: String, of session: SessionKey, site: Int, now: WallTime
    ) -> [UInt8] {
        guard names.indices.contains(site), let name = names[site] else { return [] }
        let issuedAt = now.milliseconds / 1_000
        let claims =
            "{\"iss\":\(JSONString.quoted(name)),\"aud\":\(JSONString.quoted(assertion.audience)),\"iat\":\(issuedAt),"
            + "\"exp\":\(issuedAt &+ assertion.lifetime.components.seconds),"
            + "\"sid\":\"\(signer.name(of: session, for: assertion.audience))\",\(statement)}"
        guard let token = signer.sign(claims) else { return [] }
        onSigned()
        return Array("\(assertion.header): \(token)\r\n".utf8)
    }
}
