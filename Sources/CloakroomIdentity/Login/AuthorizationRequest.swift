package import CloakroomCore

/// The authorization request of a login (OpenID Connect Core §3.1.2.1, RFC 7636 §4.3), as a URL or as the form of a
/// pushed authorization request (RFC 9126 §2.1).
package struct AuthorizationRequest: Sendable, Unprintable {
    /// What a step-up requests (RFC 9470 §4).
    package struct StepUp: Sendable, Equatable {
        /// The acceptable authentication contexts, most preferred first; empty for any.
        package var acr: [String] = []
        /// The maximum time since the authentication; `nil` for any.
        package var maxAge: Duration?
    }

    /// The parameters in the order they are sent. No name appears twice.
    package let parameters: [(name: String, value: String)]
    private let clientID: String

    /// Creates the request of a login.
    /// - Parameters:
    ///   - redirectURI: See ``redirectURI(publicURL:prefix:identity:isOnly:)``.
    ///   - extra: Configured parameters, none of ``IdentityConfiguration/Parameter/ownNames``.
    package init(
        _ secrets: LoginSecrets, clientID: String, redirectURI: String, scopes: [String],
        extra: [(name: String, value: String)] = [], stepUp: StepUp? = nil
    ) {
        var own = [
            ("response_type", "code"), ("client_id", clientID), ("redirect_uri", redirectURI),
            ("scope", scopes.joined(separator: " ")), ("state", Base64URL.encode(secrets.state)),
            ("nonce", Base64URL.encode(secrets.nonce)), ("code_challenge", secrets.challenge),
            ("code_challenge_method", "S256"),
        ]
        if let stepUp {
            if !stepUp.acr.isEmpty { own.append(("acr_values", stepUp.acr.joined(separator: " "))) }
            if let maxAge = stepUp.maxAge {
                // Providers disagree about max_age=0: one loops, one rejects it, others ignore it.
                let seconds = maxAge.components.seconds
                own.append(seconds > 0 ? ("max_age", String(seconds)) : ("prompt", "login"))
            }
        }
        let names = Set(own.map(\.0)).union(IdentityConfiguration.Parameter.ownNames)
        parameters = own.map { (name: $0.0, value: $0.1) } + extra.filter { !names.contains($0.name) }
        self.clientID = clientID
    }

    /// The URL that the browser is sent to. A query of the endpoint is kept (RFC 6749 §3.1).
    package func url(at endpoint: EndpointURL) -> String { Self.url(endpoint, parameters) }

    /// The URL that the browser is sent to after the request was pushed (RFC 9126 §4).
    package func url(at endpoint: EndpointURL, requestURI: String) -> String {
        Self.url(endpoint, [("client_id", clientID), ("request_uri", requestURI)])
    }

    /// The redirect URI of an identity. It is made of the configured URL, never of a field of the request. Identities
    /// have different URIs, so that a response of one is not processed as one of another (RFC 9700 §4.4.2.2).
    package static func redirectURI(
        publicURL: String, prefix: String, identity: String, isOnly: Bool
    ) -> String {
        publicURL + prefix + "/callback" + (isOnly ? "" : "/" + identity)
    }

    /// A URL with parameters after those that the endpoint has.
    static func url(_ endpoint: EndpointURL, _ parameters: [(name: String, value: String)]) -> String {
        let separator =
            endpoint.hasQuery ? (endpoint.text.hasSuffix("?") || endpoint.text.hasSuffix("&") ? "" : "&") : "?"
        return endpoint.text + separator + FormEncoding.encode(parameters)
    }
}

/// The response to a pushed authorization request (RFC 9126 §2.2).
package struct PushedResponse: Sendable, Equatable {
    /// The reference to the request.
    package let requestURI: String

    /// Parses the body of a 201.
    /// - Returns: `nil` unless there is a reference of 1 to 512 bytes of visible ASCII and a positive lifetime.
    package init?(_ body: [UInt8]) {
        guard body.count <= 16_384, let document = JSONValue(document: body),
            case .string(let uri)? = document[path: "request_uri"], (1...512).contains(uri.utf8.count),
            uri.utf8.allSatisfy({ (0x21...0x7e).contains($0) }),
            case .number(let seconds)? = document[path: "expires_in"], seconds > 0
        else { return nil }
        requestURI = uri
    }
}
