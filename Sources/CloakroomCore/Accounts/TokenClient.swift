/// Exchanges and revokes tokens at one source of sessions: an upstream that signs users in, or an OpenID Provider.
public protocol TokenClient: Sendable {
    /// Whether refresh tokens can be exchanged. Without, tokens are used until they expire.
    var supportsRefresh: Bool { get }
    /// Exchanges credentials for tokens, and fetches the user with them.
    /// - Parameter traceparent: The trace context of the calls; `nil` for none.
    func signIn(_ credentials: Credentials, traceparent: String?, now: Timestamp) async throws(TokenClientError)
        -> SignInResult
    /// Exchanges a session's refresh token for new tokens. If the response contains no refresh token, the current one is
    /// kept.
    /// - Returns: An update with tokens.
    /// - Throws: ``TokenClientError``; of kind `rejected` only if the upstream rejected the refresh token itself, or issued
    ///   tokens for another user: the session has to end.
    func refresh(_ session: Session, traceparent: String?, now: Timestamp) async throws(TokenClientError)
        -> SessionUpdate
    /// Fetches the user's data again. Called after a refresh, before the new tokens are saved and used.
    /// - Parameters:
    ///   - session: The session with the new tokens.
    ///   - previous: The tokens before, which the data must not contain either.
    /// - Returns: An update without tokens, whose data contain neither the tokens nor the previous ones; `nil` if nothing
    ///   changes.
    /// - Throws: ``TokenClientError``; of kind `rejected` only if the data are of another user: the session has to end.
    func updatedUser(
        of session: Session, replacing previous: TokenSet, traceparent: String?
    ) async throws(TokenClientError) -> SessionUpdate?
    /// Revokes the tokens at the upstream. Does nothing if the upstream has no such call or there is no suitable token.
    func revoke(_ tokens: TokenSet, traceparent: String?) async throws(TokenClientError)
}

/// The token client of each source of sessions. The tokens of a session are passed to the client of its source and to no
/// other. A session of a source without a client belongs to an identity that was removed or has another issuer.
public struct TokenClients: Sendable, Unprintable {
    private let clients: [SessionSource: any TokenClient]
    /// The source of sessions that users sign in to with credentials; `nil` if there is none.
    public let signInSource: SessionSource?

    /// Creates the clients of a configuration.
    /// - Parameters:
    ///   - signIn: The upstream that signs users in with credentials.
    ///   - others: The clients of providers.
    public init(
        signIn: (source: SessionSource, client: any TokenClient)? = nil, others: [SessionSource: any TokenClient] = [:]
    ) {
        var clients = others
        if let signIn { clients[signIn.source] = signIn.client }
        self.clients = clients
        signInSource = signIn?.source
    }

    /// The client of a source; `nil` if the source is not configured.
    public subscript(source: SessionSource) -> (any TokenClient)? { clients[source] }
}

/// The result of a successful sign-in.
public struct SignInResult: Sendable, Equatable {
    /// The tokens.
    public var tokens: TokenSet
    /// The signed-in user.
    public var user: UserProfile

    /// Creates a result.
    public init(tokens: TokenSet, user: UserProfile) {
        self.tokens = tokens
        self.user = user
    }
}

/// Why an identity call failed.
public struct TokenClientError: Error, Sendable, Equatable {
    /// The kind of failure.
    public enum Kind: Sendable, Hashable {
        /// The upstream rejected the credential: the password, or the refresh token.
        case rejected
        /// The upstream could not be reached (502).
        case unreachable
        /// The upstream did not respond in time (504).
        case timedOut
        /// The upstream returned an invalid response (502).
        case invalidResponse
        /// The upstream requested a later attempt: status 408, 425 or 429 (502).
        case busy
        /// The upstream rejected the gateway's own request, regardless of its credential (502).
        case misconfigured(IdentityMisconfiguration)
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
    }

    /// The kind of failure.
    public let kind: Kind
    /// The identity call that failed.
    public let call: Operation
    /// Whether the upstream certainly did not check the credential: the connection failed, or the status was 5xx. If a
    /// call was sent without a response, the credential may have been checked.
    public let isUnjudged: Bool

    /// Tokens that were issued for another user, which nothing must use; `nil` if there are none.
    public let foreign: TokenSet?

    /// Creates an error.
    public init(_ kind: Kind, in call: Operation, isUnjudged: Bool = false, foreign: TokenSet? = nil) {
        self.kind = kind
        self.call = call
        self.foreign = foreign
        self.isUnjudged = isUnjudged
    }
}

/// An account or session event, for metrics and the audit log. Contains no secret.
public enum AccountEvent: Sendable, Equatable {
    /// The outcome of a sign-in.
    public enum SignInOutcome: String, Sendable, Hashable, CaseIterable {
        /// A session was created.
        case success
        /// The credentials were wrong.
        case rejected
        /// The request was invalid.
        case invalid
        /// The upstream was unavailable or returned an invalid response.
        case upstreamError = "upstream_error"
        /// There were too many attempts before.
        case throttled
        /// The session limit was reached, or the store was unavailable.
        case storeError = "store_error"
        /// The upstream rejected the gateway's own request: its configuration is wrong.
        case misconfigured
    }

    /// A sign-in was attempted. The hash identifies the account; `nil` if no account could be parsed.
    case signIn(outcome: SignInOutcome, accountHash: UInt64?, duration: Duration)
    /// The outcome of a token refresh.
    public enum RefreshResult: String, Sendable, Hashable, CaseIterable {
        /// New tokens were obtained.
        case success
        /// Another replica had already refreshed the tokens.
        case coalesced
        /// The upstream rejected the refresh token: the session has ended.
        case rejected
        /// The upstream or the store was unavailable; the session continues.
        case transient
        /// Another replica held the lease for too long.
        case leaseTimeout = "lease_timeout"
        /// The upstream rejected the gateway's own request; the session continues.
        case misconfigured

        /// Whether the refresh is retried after a back-off.
        public var isTransient: Bool { self == .transient || self == .misconfigured }
    }

    /// The outcome of a login at a provider.
    public enum LoginOutcome: String, Sendable, Hashable, CaseIterable {
        /// A session was created.
        case success
        /// The callback is malformed.
        case invalid
        /// The browser has no such login: it took too long, was used before, or began in another browser.
        case expired
        /// The user or the provider denied it.
        case denied
        /// The user did not authenticate as the route requires, or is not the user of the session.
        case stepUpFailed = "step_up_failed"
        /// The provider reported a logout of the user while the login was in progress.
        case loggedOut = "logged_out"
        /// The callback or a response of the provider is rejected.
        case failed
        /// The provider was unavailable.
        case unavailable
        /// The provider rejected the gateway's own request: its configuration is wrong.
        case misconfigured
        /// There were too many attempts before.
        case throttled
        /// The session limit was reached, or the store was unavailable.
        case storeError = "store_error"
    }

    /// A browser was redirected to a provider.
    case loginBegan(identity: String)
    /// A login succeeded, failed, or could not begin. The reason is a constant word or a registered error code, `nil`
    /// for a success. The hash identifies the account of a success.
    case login(LoginOutcome, identity: String, reason: String?, accountHash: UInt64?, duration: Duration)
    /// A provider reported a logout, which ended these sessions. Empty if there were none, or they had ended before.
    case providerLogout([SessionID], identity: String)
    /// A logout token was rejected, or could not be processed and has to be sent again. The reason is a constant word.
    case providerLogoutFailed(identity: String, reason: String)

    /// A user signed out.
    case signOut(SessionID)
    /// What happens to the tokens of sessions that were ended by their identifiers.
    public enum EndedTokens: String, Sendable, Hashable, CaseIterable {
        /// They are revoked upstream in the background; ``AccountEvent/revokeFailed(_:)`` follows if that fails.
        case revoking
        /// The store keeps sessions sealed, and only their tickets can open them: the tokens remain valid upstream
        /// until they expire, but no request can use them.
        case notRevokedSealed = "not_revoked_sealed"
        /// Another upstream than the one that signs users in issued them, and tokens are sent to no other upstream.
        case notRevokedSourceRemoved = "not_revoked_source_gone"
    }

    /// A user ended other sessions of the same account.
    case signOutOthers([SessionID], by: SessionID, tokens: EndedTokens)
    /// An operator ended sessions.
    case revoked([SessionID], tokens: EndedTokens)
    /// The oldest sessions of an account with too many sessions were ended by a sign-in.
    case evicted([SessionID], tokens: EndedTokens)
    /// The revocation of tokens at the upstream failed.
    case revokeFailed(SessionID)
    /// A token refresh was attempted.
    case tokenRefresh(RefreshResult, SessionID, duration: Duration)
    /// The outcome of a token exchange (RFC 8693).
    public enum ExchangeResult: String, Sendable, Hashable, CaseIterable {
        /// A token was issued.
        case success
        /// The provider rejected the access token or the target.
        case rejected
        /// The provider or the store was unavailable, or the response was invalid.
        case transient
        /// The provider rejected the gateway's own request.
        case misconfigured
        /// The session ended, because its tokens could not be refreshed.
        case ended
    }

    /// A token exchange was attempted for an upstream, with its index in ``GatewayConfiguration/upstreams``.
    case tokenExchange(ExchangeResult, SessionID, upstream: Int, duration: Duration)
    /// An identity call was rejected because the gateway's configuration does not match the upstream. The identity is
    /// `nil` for the upstream that signs users in.
    case identityMisconfigured(IdentityMisconfiguration, in: TokenClientError.Operation, of: String?)
}

/// Receives account events. Must not block.
public protocol AccountObserver: Sendable {
    /// An event occurred.
    func accountEvent(_ event: AccountEvent, from origin: AuditContext)
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
        case .user, .discovery, .keys, .push, .code, .exchange: providerHint(in: call)
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
        case .notFound where call == .user: "the provider has no userinfo endpoint: write user: idToken"
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
