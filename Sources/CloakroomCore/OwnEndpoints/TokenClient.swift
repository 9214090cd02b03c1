/// Deals in tokens with the upstream that signs people in.
public protocol TokenClient: Sendable {
    /// Exchanges credentials for tokens, and fetches the user with them.
    /// - Parameter traceparent: The trace context that the calls carry; `nil` for none.
    func signIn(_ credentials: Credentials, traceparent: String?, now: Timestamp) async throws(TokenClientError)
        -> SignedIn
    /// Makes the tokens void at the upstream. Does nothing where the upstream has no such call or there is no refresh
    /// token.
    func revoke(_ tokens: SessionTokens, traceparent: String?) async throws(TokenClientError)
}

/// What a successful sign-in gives.
public struct SignedIn: Sendable, Equatable {
    /// The tokens.
    public var tokens: SessionTokens
    /// Who signed in.
    public var user: UserProfile

    /// Makes a result.
    public init(tokens: SessionTokens, user: UserProfile) {
        self.tokens = tokens
        self.user = user
    }
}

/// Why a call to the upstream that signs people in failed.
public struct TokenClientError: Error, Sendable, Equatable {
    /// The kind of failure.
    public enum Kind: Sendable, Hashable {
        /// The upstream says that the credentials are wrong (401).
        case rejected
        /// The upstream could not be reached (502).
        case unreachable
        /// The upstream did not answer in time (504).
        case timedOut
        /// The upstream answered, and the answer makes no sense (502).
        case invalidResponse
    }

    /// Which call failed.
    public enum Call: String, Sendable, Hashable {
        /// The exchange of credentials for tokens.
        case signIn = "sign_in"
        /// Fetching the user.
        case user
        /// Making tokens void.
        case revoke
    }

    /// The kind of failure.
    public let kind: Kind
    /// Which call failed.
    public let call: Call

    /// Makes an error.
    public init(_ kind: Kind, in call: Call) {
        self.kind = kind
        self.call = call
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
        /// There was no room for the session, or the store was not there.
        case storeError = "store_error"
    }

    /// Somebody tried to sign in. The hash stands for the account; `nil` where no account could be read.
    case signIn(outcome: SignInOutcome, accountHash: UInt64?, duration: Duration)
    /// Somebody signed out.
    case signOut(sessionHash: UInt64)
    /// The upstream could not be told that tokens are void.
    case revokeFailed(sessionHash: UInt64)
}

/// Is told what happens to accounts. Must not wait.
public protocol AccountObserver: Sendable {
    /// Something happened.
    func accountEvent(_ event: AccountEvent, from origin: RequestOrigin)
}
