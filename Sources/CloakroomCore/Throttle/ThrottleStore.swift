/// Keeps what the sign-in throttle remembers, beside the sessions, so that replicas share it.
public protocol ThrottleStore: Sendable {
    /// Reads what is kept under some names, in their order; `nil` where nothing is.
    func throttleStates(_ keys: [ThrottleKey], now: Timestamp) async throws(SessionStoreError) -> [ThrottleState?]
    /// Keeps a state if the one that is there is still `old`; `nil` stands for none, on both sides.
    /// - Parameter lifetime: After this it may be forgotten.
    /// - Returns: Whether it was kept; if not, somebody has changed it since.
    func replaceThrottleState(
        _ key: ThrottleKey, _ old: ThrottleState?, with new: ThrottleState?, lifetime: Duration, now: Timestamp
    ) async throws(SessionStoreError) -> Bool
}

/// What attempts are counted by. Names and addresses are hashed under a key of the gateway's.
public struct ThrottleKey: Sendable, Hashable {
    /// What is counted.
    public enum Scope: UInt8, Sendable, Hashable, CaseIterable {
        /// An account from one address.
        case accountAndAddress = 1
        /// One address, whatever the account.
        case address = 2
        /// An account from everywhere, whatever marks are on its letters.
        case account = 3
        /// An account from one address: all attempts, successful ones too.
        case attemptsOfAccount = 4
        /// One address: all attempts, successful ones too.
        case attempts = 5
        /// All spellings of an account with marks on letters or that case folding changes, from one address.
        case spelling = 6
    }

    /// What is counted.
    public let scope: Scope
    /// Stands for the account, the address or both.
    public let hash: UInt64

    /// Makes a key.
    public init(_ scope: Scope, hash: UInt64) {
        self.scope = scope
        self.hash = hash
    }
}

/// What the throttle remembers under one name.
public struct ThrottleState: Sendable, Hashable {
    /// Attempts since ``since`` that did not succeed.
    public var count: UInt32
    /// When counting began.
    public var since: Timestamp
    /// When the next attempt is allowed.
    public var notBefore: Timestamp

    /// Makes a state.
    public init(count: UInt32, since: Timestamp, notBefore: Timestamp) {
        self.count = count
        self.since = since
        self.notBefore = notBefore
    }
}
