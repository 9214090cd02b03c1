/// Stores the state of the sign-in throttle next to the sessions, so that replicas share it.
///
/// An attempt is counted in one step however many attempts are concurrent: no caller compares and repeats.
public protocol ThrottleStore: Sendable {
    /// Reads the states of the keys, in their order; `nil` for keys without a state.
    func throttleStates(_ keys: [ThrottleKey], now: SessionTime) async throws(SessionStoreError) -> [ThrottleState?]
    /// Counts an attempt under all keys, or under none of them if a rule delays it.
    func countAttempt(
        _ counters: [ThrottleCounter], now: SessionTime
    ) async throws(SessionStoreError) -> ThrottleResult
    /// Removes an attempt from counts.
    func removeAttempt(_ counts: [ThrottleCount], now: SessionTime) async throws(SessionStoreError)
}

/// A key and the rule by which it delays attempts.
public struct ThrottleCounter: Sendable, Hashable {
    /// The key.
    public let key: ThrottleKey
    /// The rule.
    public let rule: ThrottleRule

    package init(_ key: ThrottleKey, _ rule: ThrottleRule) {
        self.key = key
        self.rule = rule
    }
}

/// The result of counting an attempt; values are in the order of the counters.
public enum ThrottleResult: Sendable, Equatable {
    /// The attempt is counted under all keys.
    case counted([ThrottleCount])
    /// The attempt is not counted: at least one wait is longer than zero.
    case delayed([Duration])

    /// The result for the current states. If the attempt is counted, the store sets each ``ThrottleCount/after``.
    public init(_ counters: [ThrottleCounter], _ states: [ThrottleState?], now: SessionTime) {
        let waits = zip(counters, states).map { $0.rule.wait($1, now: now) ?? .zero }
        self =
            waits.contains { $0 > .zero }
            ? .delayed(waits) : .counted(zip(counters, states).map { ThrottleCount($0, over: $1, now: now) })
    }
}

/// An attempt in one count.
public struct ThrottleCount: Sendable, Equatable {
    /// The key and its rule.
    public let counter: ThrottleCounter
    /// The state before the attempt.
    public let before: ThrottleState?
    /// The state that the attempt has set.
    public let after: ThrottleState
    /// How long the store has to keep it.
    public let lifetime: Duration
    /// Whether the removal of this attempt removes those of others as well.
    public var forgetsAll = false

    /// Counts an attempt.
    public init(_ counter: ThrottleCounter, over before: ThrottleState?, now: SessionTime) {
        self.counter = counter
        self.before = before
        after = counter.rule.recordingAttempt(before, now: now)
        lifetime = counter.rule.lifetime(of: after, now: now)
    }

    /// Returns the new state without the attempt and how long it is kept; `nil` if there is none. If no other attempt has
    /// changed the state, the earlier one is restored, including its delays.
    public func removed(
        from state: ThrottleState?, now: SessionTime
    ) -> (state: ThrottleState, lifetime: Duration)? {
        let rule = counter.rule
        guard !forgetsAll, let state,
            let new = state == after ? before : rule.removingAttempt(state, now: now)
        else { return nil }
        // An expired state is not stored again.
        let lifetime = rule.lifetime(of: new, now: now)
        return lifetime > .zero ? (new, lifetime) : nil
    }
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
        /// The /48 of an IPv6 address, for all accounts.
        case network = 7
        /// The /48 of an IPv6 address: all attempts, successful ones too.
        case attemptsOfNetwork = 8

        /// Whether all attempts are counted, successful ones too.
        package var countsAll: Bool {
            switch self {
            case .accountAndAddress, .address, .account, .spelling, .network: false
            case .attemptsOfAccount, .attempts, .attemptsOfNetwork: true
            }
        }
    }

    /// The scope of the count.
    public let scope: Scope
    /// The hash of the account, the address or both.
    public let hash: UInt64
    /// The same for all keys of one address, or of one IPv6 /48. A store of several servers keeps the states of a group at one
    /// of them.
    public let group: UInt64

    /// Creates a key.
    /// - Parameter group: `nil` for a key that is counted alone.
    public init(_ scope: Scope, hash: UInt64, group: UInt64? = nil) {
        self.scope = scope
        self.hash = hash
        self.group = group ?? hash
    }

    /// The hash alone: it has a key of its own, and tables hash each key several times for an attempt.
    public func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}

/// The throttle state of one key.
public struct ThrottleState: Sendable, Hashable {
    /// Attempts since ``since`` that did not succeed.
    public var count: UInt32
    /// The start of the counting period.
    public var since: SessionTime
    /// The earliest time of the next attempt.
    public var notBefore: SessionTime

    package init(count: UInt32, since: SessionTime, notBefore: SessionTime) {
        self.count = count
        self.since = since
        self.notBefore = notBefore
    }
}
