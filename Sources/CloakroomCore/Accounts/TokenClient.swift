/// Exchanges and revokes tokens at one source of sessions: an upstream that signs users in, or an OpenID Provider.
public protocol TokenClient: Sendable {
    /// Whether refresh tokens can be exchanged. Without, tokens are used until they expire.
    var supportsRefresh: Bool { get }
    /// Exchanges credentials for tokens, and fetches the user with them.
    /// - Parameter traceparent: The trace context of the calls; `nil` for none.
    func signIn(_ credentials: Credentials, traceparent: String?, now: WallTime) async throws(TokenClientError)
        -> SignInResult
    /// Exchanges a session's refresh token for new tokens. If the response contains no refresh token, the current one is
    /// kept.
    /// - Returns: An update with tokens.
    /// - Throws: ``TokenClientError``; of kind `rejected` only if the upstream rejected the refresh token itself, or issued
    ///   tokens for another user: the session has to end.
    func refresh(_ session: Session, traceparent: String?, now: WallTime) async throws(TokenClientError)
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
    /// The rules of the gateway's own endpoints: a session of a source without a client is denied, and no other.
    package let rules: SessionRules

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
        rules = SessionRules(admitting: clients.keys)
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

    package init(tokens: TokenSet, user: UserProfile) {
        self.tokens = tokens
        self.user = user
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
        /// Another upstream than the one that signs users in issued them, and only their issuer can revoke them.
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
    /// A client registered the key of its device or proved that it has it, or tried to.
    case deviceProof(DeviceOutcome, SessionID, reason: DeviceRejection?)
    /// A request with a session that is bound to a device was checked for its proof.
    case deviceCheck(DeviceCheck, SessionID)
    /// An identity call was rejected because the gateway's configuration does not match the upstream. The identity is
    /// `nil` for the upstream that signs users in.
    case identityMisconfigured(IdentityMisconfiguration, in: TokenClientError.Operation, of: String?)
}

/// The result of a registration of a key or of a refresh of its proof: the label `outcome`. `repeated`: the session has had
/// the key already. `challenged`: the client had no recent challenge.
public enum DeviceOutcome: String, Sendable, CaseIterable {
    case bound, repeated, refreshed, challenged, rejected
}

/// Why a signed challenge is rejected. For logs only.
public enum DeviceRejection: String, Error, Sendable, CaseIterable {
    /// `limited`: too many failed before.
    case malformed, limited
    /// A script of a page may have sent the registration.
    case script
    case invalidChallenge = "invalid_challenge"
    case staleChallenge = "stale_challenge"
    /// A registration without a public key on P-256, or with another one than the session has; a refresh with one.
    case invalidKey = "invalid_key"
    case otherKey = "other_key"
    case invalidSignature = "invalid_signature"
}

/// Receives account events. Must not block.
public protocol AccountObserver: Sendable {
    /// An event occurred.
    func accountEvent(_ event: AccountEvent, from origin: AuditContext)
}

extension AccountObserver {
    /// Reports a failed call if an operator has to correct the configuration.
    /// - Parameter identity: `nil` for the upstream that signs users in.
    package func note(
        _ error: TokenClientError, of identity: String?, from origin: AuditContext = AuditContext()
    ) {
        if case .misconfigured(let reason) = error.kind {
            accountEvent(.identityMisconfigured(reason, in: error.call, of: identity), from: origin)
        }
    }
}
