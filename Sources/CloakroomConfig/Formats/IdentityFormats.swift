import CloakroomCore
import CloakroomWire

extension ValueFormat where Value == String {
    /// An issuer: an endpoint without a query (OpenID Connect Discovery §3).
    static let issuer = ValueFormat("https URL, or http URL on loopback, without a query") {
        text throws(ConfigValueError) in
        let url = try ValueFormat<String>.endpoint.parse(text)
        try require(!url.contains("?"), "must be a URL without a query", "write one such as https://id.example.com")
        try require(
            !url.hasSuffix("/.well-known/openid-configuration"), "must be the issuer, not its discovery document",
            "write \(url.dropLast("/.well-known/openid-configuration".count))")
        return url
    }

    /// A URL of a server that receives secrets.
    static let endpoint = ValueFormat("https URL, or http URL on loopback") { text throws(ConfigValueError) in
        let example = "write one such as https://id.example.com"
        // Text that may contain a password is not printed.
        try require(!text.contains("@"), "must be a URL without user and password", example)
        guard EndpointURL(text) == nil else { return text }
        if text.hasPrefix("http://") {
            throw ConfigValueError("must be an https URL: tokens would be sent unencrypted", example)
        }
        let isBare = !text.contains("://") && EndpointURL("https://\(text)") != nil
        throw ConfigValueError("must be an https URL, not \(text.quoted)", isBare ? "write https://\(text)" : example)
    }

    /// The gateway's own origin: `https`, or `http` on loopback.
    static let publicURL = httpsOrigin(otherwise: "codes would be sent unencrypted")

    /// An `https` origin, or an `http` one on loopback.
    /// - Parameter harm: What happens with another `http` origin.
    static func httpsOrigin(otherwise harm: String) -> Self {
        ValueFormat("origin such as `https://app.example.com`; http on loopback only") {
            text throws(ConfigValueError) in
            let origin = try ValueFormat<String>.origin.parse(text)
            try require(
                EndpointURL(origin) != nil, "must be an https origin: \(harm)",
                "write one such as https://app.example.com")
            return origin
        }
    }

    /// A client id (RFC 6749 Appendix A.1), without spaces.
    static let clientID = text(
        "visible ASCII, at most 255 bytes", mustBe: "visible ASCII, at most 255 bytes",
        "write the id that the provider issued"
    ) { text in
        (1...255).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7e).contains($0) }
    }

    /// One scope (RFC 6749 §3.3).
    static let scope = text("scope", mustBe: "a scope", "write one such as email, without spaces") { isScope($0) }

    /// Scopes separated by spaces.
    static let scopes = text(
        "scopes, separated by spaces", mustBe: "scopes separated by one space", "write such as read write"
    ) {
        $0.split(separator: " ", omittingEmptySubsequences: false).allSatisfy { isScope($0) }
    }

    /// An authentication context. It is written in quotation marks into a header field (RFC 9470 §3).
    static let authenticationContext = text(
        "visible ASCII without quotation marks and backslashes, at most 255 bytes",
        mustBe: "an authentication context", "write one such as urn:example:mfa"
    ) { isScope($0) && $0.utf8.count <= 255 }

    /// A name for the sign-in page.
    static let label = ValueFormat("text") { text throws(ConfigValueError) in
        let label = try ValueFormat<String>.text.parse(text)
        try require(label.utf8.count <= 64, "must be at most 64 bytes long", "write the short name that users know")
        return label
    }

    /// An error code of a token endpoint (RFC 6749 §5.2) that ends a session, or `any400`. Codes that a mistake in the
    /// gateway's configuration causes are not allowed: one mistake would sign out all users. `invalid_request` is: some
    /// servers use it for an invalid refresh token.
    static let errorCode = ValueFormat("error code, or `any400`") { text throws(ConfigValueError) in
        try require(
            isScope(text) && text.utf8.count <= 64, "must be an error code, not \(text.quoted)",
            "write one such as invalid_grant")
        try require(
            !["invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope"].contains(text),
            "\(text) concerns the gateway's configuration: it would sign out all users", "leave it out")
        return text
    }

    /// `NQCHAR` (RFC 6749 Appendix A): visible ASCII without `"` and `\`.
    private static func isScope(_ text: some StringProtocol) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != 0x22 && $0 != 0x5c }
    }
}

extension ValueFormat where Value == ClaimName {
    /// A claim: not a member that refers to other documents (OpenID Connect Core §5.6.2).
    static let claimName = ValueFormat("name of a claim, or JSON Pointer: `/realm_access/roles`") {
        text throws(ConfigValueError) in
        let text = try ValueFormat<String>.text.parse(text)
        try require(text.utf8.count <= 255, "must be at most 255 bytes long", "write the name of one claim")
        guard let name = ClaimName(text) else {
            throw ConfigValueError(
                "must be a JSON Pointer without empty names, not \(text.quoted)",
                "write such as /realm_access/roles, with ~1 for / and ~0 for ~ within a name")
        }
        let elsewhere: [ClaimName] = ["_claim_names", "_claim_sources"]
        try require(
            !elsewhere.contains { $0.contains(name) },
            "\(text) is not supported: claims elsewhere are not fetched", "leave it out")
        return name
    }
}

extension ValueFormat where Value == Int {
    /// What clients may pass on: text up to a length. A list of values is read as a list.
    static let passedLength = ValueFormat("maximum length in bytes, 1 to 1024, or a list of values") {
        text throws(ConfigValueError) in
        guard let length = Int(text), (1...1_024).contains(length) else {
            throw ConfigValueError(
                "must be a length from 1 to 1024, or a list, not \(text.quoted)",
                "write one such as 64, or the permitted values as [\(text.escaped)]")
        }
        return length
    }
}

extension ValueFormat where Value == SignatureAlgorithm {
    /// An algorithm for ID tokens. Case-sensitive, as in tokens.
    static let signatureAlgorithm = algorithm(among: SignatureAlgorithm.allCases)
    static let assertionAlgorithm = algorithm(among: SignatureAlgorithm.assertions)

    private static func algorithm(among choices: [SignatureAlgorithm]) -> Self {
        ValueFormat(choices.map { "`\($0.rawValue)`" }.joined(separator: ", "), render: { $0.rawValue }) {
            text throws(ConfigValueError) in
            let remedy = "write " + choices.map(\.rawValue).alternatives
            if let algorithm = SignatureAlgorithm(rawValue: text), choices.contains(algorithm) { return algorithm }
            let lower = text.lowercased()
            if lower == "none" || lower.hasPrefix("hs") {
                throw ConfigValueError("\(text.quoted) is not supported: it needs no private key", remedy)
            }
            throw ConfigValueError("must be one of the allowed values, not \(text.quoted)", remedy)
        }
    }
}
