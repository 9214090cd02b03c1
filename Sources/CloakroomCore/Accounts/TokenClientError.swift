/// Why an identity call had no usable result. Contains nothing that the server sent except an error code of OAuth.
public struct TokenClientError: Error, Sendable, Equatable {
    /// The kind of failure. What follows from each kind is in ``effects``.
    public enum Kind: Sendable, Hashable {
        /// The server rejected the credential: the password, or the refresh token.
        case rejected
        /// The provider rejected what else the gateway presented, such as a code or an access token, with this error code
        /// (RFC 6749 §5.2).
        case denied(String)
        /// The server could not be reached, or the metadata or keys of the provider were never fetched.
        case unreachable
        /// The server did not respond in time.
        case timedOut
        /// The response is invalid, or its content is rejected.
        case failed(ResponseDefect)
        /// The server requested a later attempt: status 408, 425 or 429.
        case busy
        /// The server rejected the gateway's own request, regardless of its credential, or the provider lacks an endpoint
        /// that the configuration requires.
        case misconfigured(IdentityMisconfiguration)

        /// An invalid response without further details.
        public static let invalidResponse = Kind.failed(.invalidResponse)
    }

    /// The identity call that failed.
    public enum Operation: String, Sendable, Hashable, CaseIterable {
        /// The exchange of credentials for tokens.
        case signIn = "sign_in"
        /// Fetching the metadata of a provider.
        case discovery
        /// Fetching the keys of a provider.
        case keys
        /// A pushed authorization request.
        case push
        /// The exchange of an authorization code for tokens.
        case code
        /// The exchange of an access token for one of another audience (RFC 8693).
        case exchange
        /// The exchange of a refresh token for new tokens.
        case refresh = "renew"
        /// Fetching the user.
        case user
        /// The revocation of tokens.
        case revoke
        /// The introspection of an access token of a client (RFC 7662).
        case introspect
    }

    /// The kind of failure.
    public let kind: Kind
    /// The identity call that failed.
    public let call: Operation
    /// Whether the server certainly did not check the credential: the connection failed, or the status was 5xx. If a
    /// call was sent without a response, the credential may have been checked.
    public let isUnjudged: Bool
    /// Tokens that were issued for another user, which nothing must use; `nil` if there are none.
    public let foreign: TokenSet?

    package init(_ kind: Kind, in call: Operation, isUnjudged: Bool = false, foreign: TokenSet? = nil) {
        self.kind = kind
        self.call = call
        self.foreign = foreign
        self.isUnjudged = isUnjudged
    }
}

extension TokenClientError.Kind {
    /// What follows from a failed call.
    /// - Returns: A constant word for the log, `nil` if the server rejected what belongs to a user, which is no failure;
    ///   `error.type` of spans and metrics, with the values that exchanges use; the response to a sign-in with
    ///   credentials; its outcome; and the outcome of an exchange of tokens.
    public var effects:
        (
            word: String?, errorType: String, problem: Problem, signIn: AccountEvent.SignInOutcome,
            exchange: AccountEvent.ExchangeResult
        )
    {
        switch self {
        case .rejected:
            (nil, "rejected", Problem(.unauthorized, reason: .invalidCredentials), .rejected, .rejected)
        case .denied: (nil, "rejected", Problem(.unreachable), .upstreamError, .rejected)
        case .unreachable:
            ("unreachable", "upstream_unreachable", Problem(.unreachable), .upstreamError, .transient)
        case .timedOut:
            ("timed_out", "upstream_timeout", Problem(.unreachable, status: 504), .upstreamError, .transient)
        case .failed:
            ("invalid_response", "upstream_invalid_response", Problem(.invalidResponse), .upstreamError, .transient)
        case .busy: ("busy", "upstream_unreachable", Problem(.unreachable), .upstreamError, .transient)
        case .misconfigured(let reason):
            (reason.rawValue, "internal_error", Problem(.identityMisconfigured), .misconfigured, .misconfigured)
        }
    }

    /// The response to a request that needs new tokens: its own upstream did not send the invalid response, and its user
    /// entered no password.
    public var tokenProblem: Problem {
        var problem = effects.problem
        if ![.unreachable, .identityMisconfigured].contains(problem.code) { problem = Problem(.unreachable) }
        problem.retryAfter = 1
        return problem
    }
}

/// Why the content of a response is rejected.
public enum ResponseDefect: Error, Sendable, Hashable {
    /// Not JSON, a required member is missing or has another type, too large, or another status than expected.
    case invalidResponse
    /// The ID token is missing.
    case noIDToken
    /// The ID token is rejected.
    case token(TokenRejection)
    /// The data of the user have another `sub` than the ID token (OpenID Connect Core §5.3.2).
    case otherSubject
    /// The kept claims are larger than the configured limit.
    case claimsTooLarge
    /// The token of an exchange is not an access token for `Bearer` (RFC 8693 §2.2.1).
    case otherTokenType

    /// A constant word for logs and metrics.
    public var name: String { text.name }
    /// The first thing that an operator should check.
    public var hint: StaticString { text.hint }

    private var text: (name: String, hint: StaticString) {
        switch self {
        case .invalidResponse:
            (
                "invalid_response",
                "the provider's response is no JSON object with the required members; see its own log"
            )
        case .noIDToken:
            (
                "no_id_token",
                "scopes must contain openid, and the client must be an OpenID Connect client at the provider"
            )
        case .token(let rejection): (rejection.rawValue, rejection.hint)
        case .otherSubject: ("other_subject", "the userinfo endpoint returned another user than the ID token")
        case .claimsTooLarge: ("claims_too_large", "keep fewer claims, or raise keep.bytes")
        case .otherTokenType:
            (
                "other_token_type",
                "the exchange must issue a Bearer access token; check audience and the client's permissions"
            )
        }
    }
}

/// Why an identity upstream rejects the gateway's own request, regardless of its credential. An operator has to correct
/// the configuration of the gateway or of the upstream.
public enum IdentityMisconfiguration: String, Sendable, Hashable, CaseIterable {
    /// OAuth `invalid_client`: the client id or secret is wrong (RFC 6749 §5.2).
    case invalidClient = "invalid_client"
    /// OAuth `unauthorized_client`: the client may not use this grant.
    case unauthorizedClient = "unauthorized_client"
    /// OAuth `unsupported_grant_type`.
    case unsupportedGrantType = "unsupported_grant_type"
    /// OAuth `invalid_scope`.
    case invalidScope = "invalid_scope"
    /// OAuth `invalid_request`: a parameter is missing, unknown or malformed.
    case invalidRequest = "invalid_request"
    /// Status 404: the path of the call is probably wrong.
    case notFound = "not_found"
    /// Status 403: the API token is probably wrong.
    case forbidden
    /// Another 4xx status that is not among the call's `rejectedStatuses`.
    case requestRejected = "request_refused"

    /// Maps an OAuth error code; `nil` for codes with another meaning, and for unknown ones.
    public init?(oauthCode code: String) {
        switch Self(rawValue: code) {
        case .invalidClient, .unauthorizedClient, .unsupportedGrantType, .invalidScope, .invalidRequest:
            self.init(rawValue: code)
        case .notFound, .forbidden, .requestRejected, nil: return nil
        }
    }

    /// The first thing that an operator should check: keys of an upstream, or of an identity for the calls that only
    /// providers receive.
    public func hint(in call: TokenClientError.Operation) -> StaticString {
        switch call {
        case .signIn, .revoke: upstreamHint
        case .refresh: refreshHint
        case .user, .discovery, .keys, .push, .code, .exchange, .introspect: providerHint(in: call)
        }
    }

    private var upstreamHint: StaticString {
        switch self {
        case .invalidClient: "the client's name or secret is wrong"
        case .unauthorizedClient: "the upstream does not allow this grant for the client"
        case .unsupportedGrantType: "the upstream does not support this grant"
        case .invalidScope: "the upstream does not support the scope"
        case .invalidRequest: "the upstream expects another request format"
        case .notFound: "the path of the call is probably wrong"
        case .forbidden: "the API token is probably wrong"
        case .requestRejected: "check method, path and credentials of the call, and its rejectedStatuses"
        }
    }

    /// Upstreams and providers receive refreshes.
    private var refreshHint: StaticString {
        switch self {
        case .forbidden: "the API token of the upstream is wrong, or a firewall of the provider rejects the call"
        case .requestRejected:
            """
            upstream: check method, path and credentials of refresh, and its rejectedStatuses; \
            identity: check client.authentication; if the response is that to an invalid refresh token, see endsOn
            """
        case .invalidRequest:
            """
            the server expects another request format; if it responds so to an invalid refresh token, \
            add invalid_request to endsOn
            """
        default: upstreamHint
        }
    }

    private func providerHint(in call: TokenClientError.Operation) -> StaticString {
        switch self {
        case .invalidClient:
            """
            check client.id, client.authentication and the secret of the identity; \
            for private_key_jwt the key and client.assertionAudience
            """
        case .unauthorizedClient: "allow this grant for the client at the provider"
        case .unsupportedGrantType: "the provider does not support this grant, or not for this client"
        case .invalidScope where call == .exchange: "check scope of exchange"
        case .invalidScope: "check scopes of the identity"
        case .invalidRequest where call == .exchange: "check audience, resource and scope of exchange"
        case .notFound where call == .push: "the provider has no endpoint for pushed requests: write pushed: auto"
        case .notFound where call == .introspect: "the provider has no introspection endpoint: leave introspection out"
        case .notFound where call == .user:
            """
            upstream: the path of user is probably wrong; \
            identity: the provider has no userinfo endpoint, write user: idToken
            """
        case .notFound: "the metadata of the provider name a wrong endpoint"
        case .forbidden: "a firewall of the provider probably rejects the call"
        case .invalidRequest, .requestRejected:
            """
            check client.authentication, client.assertionAudience and pushed of the identity, \
            and its redirect URI at the provider
            """
        }
    }
}
