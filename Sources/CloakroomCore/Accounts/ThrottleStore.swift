/// Stores the state of the sign-in throttle next to the sessions, so that replicas share it.
public protocol ThrottleStore: Sendable {
    /// Reads the states of the keys, in their order; `nil` for keys without a state.
    func throttleStates(_ keys: [ThrottleKey], now: Timestamp) async throws(SessionStoreError) -> [ThrottleState?]
    /// Replaces a state if the current one is still `old`; `nil` means no state, for both parameters.
    /// - Parameter lifetime: The state may be deleted after this duration.
    /// - Returns: Whether the state was replaced; if not, it has changed concurrently.
    func replaceThrottleState(
        _ key: ThrottleKey, _ old: ThrottleState?, with new: ThrottleState?, lifetime: Duration, now: Timestamp
    ) async throws(SessionStoreError) -> Bool
}

/// The key by which attempts are counted. Names and addresses are hashed under a key of the gateway.
public struct ThrottleKey: Sendable, Hashable {
    /// The scope of a count.
    public enum Scope: UInt8, Sendable, Hashable, CaseIterable {
        /// An account from one address.
        case accountAndAddress = 1
        /// One address, for all accounts.
        case address = 2
        /// An account from all addresses, regardless of marks on its letters.
        case account = 3
        /// An account from one address: all attempts, successful ones too.
        case attemptsOfAccount = 4
        /// One address: all attempts, successful ones too.
        case attempts = 5
        /// All spellings of an account with marks on letters or that case folding changes, from one address.
        case spelling = 6
    }

    /// The scope of the count.
    public let scope: Scope
    /// The hash of the account, the address or both.
    public let hash: UInt64

    /// Creates a key.
    public init(_ scope: Scope, hash: UInt64) {
        self.scope = scope
        self.hash = hash
    }
}

/// The throttle state of one key.
public struct ThrottleState: Sendable, Hashable {
    /// Attempts since ``since`` that did not succeed.
    public var count: UInt32
    /// The start of the counting period.
    public var since: Timestamp
    /// The earliest time of the next attempt.
    public var notBefore: Timestamp

    /// Creates a state.
    public init(count: UInt32, since: Timestamp, notBefore: Timestamp) {
        self.count = count
        self.since = since
        self.notBefore = notBefore
    }
}
