/// Deals in tokens with the upstream that signs people in.
public protocol TokenClient: Sendable {
    /// Exchanges credentials for tokens, and fetches the user with them.
    /// - Parameter traceparent: The trace context that the calls carry; `nil` for none.
    func signIn(_ credentials: Credentials, traceparent: String?, now: Timestamp) async throws(TokenClientError)
        -> SignInResult
    /// Exchanges a refresh token for new tokens. An answer without a refresh token leaves the one that there is.
    /// - Throws: ``TokenClientError``; of kind `rejected` only where the upstream rejected the refresh token itself.
    func refresh(_ tokens: TokenSet, traceparent: String?, now: Timestamp) async throws(TokenClientError)
        -> TokenSet
    /// Fetches the user's data.
    /// - Parameter previous: The tokens that `tokens` replaced, which the data must not contain either; `nil` for none.
    /// - Returns: A JSON object in UTF-8 without any of the tokens; `nil` where the upstream has no such call.
    func user(
        _ tokens: TokenSet, replacing previous: TokenSet?, traceparent: String?
    ) async throws(TokenClientError) -> [UInt8]?
    /// Makes the tokens void at the upstream. Does nothing where the upstream has no such call or there is no refresh
    /// token.
    func revoke(_ tokens: TokenSet, traceparent: String?) async throws(TokenClientError)
}

/// What a successful sign-in gives.
public struct SignInResult: Sendable, Equatable {
    /// The tokens.
    public var tokens: TokenSet
    /// Who signed in.
    public var user: UserProfile

    /// Makes a result.
    public init(tokens: TokenSet, user: UserProfile) {
        self.tokens = tokens
        self.user = user
    }
}

/// Why a call to the upstream that signs people in failed.
public struct TokenClientError: Error, Sendable, Equatable {
    /// The kind of failure.
    public enum Kind: Sendable, Hashable {
        /// The upstream rejected the credential: the password, or the refresh token.
        case rejected
        /// The upstream could not be reached (502).
        case unreachable
        /// The upstream did not answer in time (504).
        case timedOut
        /// The upstream answered, and the answer makes no sense (502).
        case invalidResponse
        /// The upstream asked for a later attempt: status 408, 425 or 429 (502).
        case busy
        /// The upstream refused the gateway's own request, whatever the credential in it (502).
        case misconfigured(IdentityMisconfiguration)
    }

    /// Which call failed.
    public enum Operation: String, Sendable, Hashable, CaseIterable {
        /// The exchange of credentials for tokens.
        case signIn = "sign_in"
        /// The exchange of a refresh token for new tokens.
        case refresh = "renew"
        /// Fetching the user.
        case user
        /// Making tokens void.
        case revoke
    }

    /// The kind of failure.
    public let kind: Kind
    /// Which call failed.
    public let call: Operation
    /// Whether the upstream certainly did not judge the credential: no connection could be made, or it answered 5xx. A
    /// call that was sent and not answered may have been judged.
    public let isUnjudged: Bool

    /// Makes an error.
    public init(_ kind: Kind, in call: Operation, isUnjudged: Bool = false) {
        self.kind = kind
        self.call = call
        self.isUnjudged = isUnjudged
    }
}

/// What happens to accounts and sessions, for metrics and the audit log. Nothing in it is secret.
public enum AccountEvent: Sendable, Equatable {
    /// How a sign-in went.
    public enum SignInOutcome: String, Sendable, Hashable, CaseIterable {
        /// There is a new session.
        case success
        /// The credentials were wrong.
        case rejected
        /// The request could not be right as it stands.
        case invalid
        /// The upstream was not there, or made no sense.
        case upstreamError = "upstream_error"
        /// There were too many attempts before it.
        case throttled
        /// There was no room for the session, or the store was not there.
        case storeError = "store_error"
        /// The upstream refused the gateway's own request: its configuration is wrong.
        case misconfigured
    }

    /// Somebody tried to sign in. The hash stands for the account; `nil` where no account could be read.
    case signIn(outcome: SignInOutcome, accountHash: UInt64?, duration: Duration)
    /// How a renewal went.
    public enum RefreshResult: String, Sendable, Hashable, CaseIterable {
        /// There are new tokens.
        case success
        /// Another replica had renewed them already.
        case coalesced
        /// The upstream refused for good: the session is over.
        case rejected
        /// The upstream or the store was not there; the session stays.
        case transient
        /// Another replica held the lease for too long.
        case leaseTimeout = "lease_timeout"
        /// The upstream refused the gateway's own request; the session stays.
        case misconfigured

        /// Whether the refresh is to be tried again after a back-off.
        public var isTransient: Bool { self == .transient || self == .misconfigured }
    }

    /// Somebody signed out.
    case signOut(SessionID)
    /// What happens to the tokens of sessions that were ended by their names.
    public enum EndedTokens: String, Sendable, Hashable, CaseIterable {
        /// They are revoked upstream in the background; ``AccountEvent/revokeFailed(_:)`` follows where that fails.
        case revoking
        /// The store keeps sessions sealed, and only their tickets would open them: the tokens live on upstream until they
        /// expire, and no request can use them.
        case notRevokedSealed = "not_revoked_sealed"
        /// They come from another upstream than the one that signs people in, and are sent to no other.
        case notRevokedSourceRemoved = "not_revoked_source_gone"
    }

    /// Somebody ended other sessions of theirs.
    case signOutOthers([SessionID], by: SessionID, tokens: EndedTokens)
    /// An operator ended sessions.
    case revoked([SessionID], tokens: EndedTokens)
    /// The oldest sessions of an account that had too many ended at a sign-in.
    case evicted([SessionID], tokens: EndedTokens)
    /// The upstream could not be told that tokens are void.
    case revokeFailed(SessionID)
    /// Tokens were to be renewed.
    case tokenRefresh(RefreshResult, SessionID, duration: Duration)
    /// An identity call was refused because the gateway's configuration does not fit the upstream.
    case identityMisconfigured(IdentityMisconfiguration, in: TokenClientError.Operation)
}

/// Is told what happens to accounts. Must not wait.
public protocol AccountObserver: Sendable {
    /// Something happened.
    func accountEvent(_ event: AccountEvent, from origin: AuditContext)
}
