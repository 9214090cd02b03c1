/// The rules that throttle sign-in attempts, and the keys by which attempts are counted.
///
/// Attempts are counted for an account from one address, for an address regardless of the account, and for an account
/// from all addresses. An attempt is allowed if none of the three rules delays it. Unknown accounts count like any
/// other, because the gateway does not know which accounts exist.
///
/// An IPv6 address is its /64. Its /48, which a client may have as a whole, has 16 times the attempts of an address in
/// addition. For one account it has no count of its own: the count from all addresses is narrower.
///
/// Accounts are counted by the typed name, case-folded, normalized and without white space and invisible characters:
/// before the upstream has accepted a password, no other name is known. Many databases also accept `jö` for `jo`, so
/// that each accent would allow five more guesses. All spellings with marks, and those that case folding or
/// normalization form KC changes (`ı`, `ß`, full-width letters), are therefore also counted together
/// (``ThrottleKey/Scope/spelling``), by the name without marks. A success resets failures only if the folded name is
/// exactly the typed one (``isFolded(_:)``), and never those of that common count: an attacker whose own account is
/// visually similar to another one, or differs from it only in an accent, cannot reset it. All spellings of a name
/// together have twice the attempts of one, whatever their number. Spellings that only the upstream knows to be one
/// account (an alias, dots that it ignores) are limited by the address.
///
/// Two more rules limit all attempts, including successful ones: each sign-in makes the upstream check a password and
/// issue tokens, so one valid password must not permit an unlimited number of them.
public enum SignInThrottle {
    /// The maximum number of attempts for one account from one address in 10 minutes.
    public static let attemptsOfAccount: UInt32 = 20

    /// Returns the rule of a scope.
    /// - Parameter attemptsPerAddress: The maximum number of attempts from one address in 10 minutes, 1...1,000,000.
    public static func rule(_ scope: ThrottleKey.Scope, attemptsPerAddress: Int = 100) -> ThrottleRule {
        switch scope {
        case .accountAndAddress: accountAndAddress
        case .address: address
        case .account: account
        case .spelling: accountAndAddress
        case .attemptsOfAccount: attempts(attemptsOfAccount)
        case .attempts: attempts(UInt32(clamping: max(1, attemptsPerAddress)))
        case .network: network
        case .attemptsOfNetwork: attempts(UInt32(clamping: Int(RateKey.blockFactor) * max(1, attemptsPerAddress)))
        }
    }

    /// Returns the keys of an attempt, the narrowest first.
    /// - Parameters:
    ///   - address: The peer's address, without port. Text that is not an IP address is used unchanged.
    ///   - countsAll: Whether the keys follow by which all attempts are counted, including successful ones.
    ///   - key: The key for hashing.
    public static func keys(
        account: AccountName, address: String, countsAll: Bool = false, under key: KeyedHash
    ) -> [ThrottleKey] {
        let block = ClientAddressKey(address)?.bytes ?? Array(address.utf8)
        let name = account.throttleBytes
        let base = AccountName.withoutMarks(name)
        let ofAddress = Self.keys(address: address, countsAll: countsAll, under: key)
        let group = ofAddress[0].group
        var keys = [
            makeKey(.accountAndAddress, [name, block], key, group: group), ofAddress[0],
            makeKey(.account, [base], key),
        ]
        if base != account.canonicalBytes { keys.append(makeKey(.spelling, [base, block], key, group: group)) }
        if countsAll { keys.append(makeKey(.attemptsOfAccount, [name, block], key, group: group)) }
        return keys + ofAddress.dropFirst()
    }

    /// Returns the keys of an attempt of a user who is not known before it succeeds, such as the callback of a login: those
    /// of its address and of its /48, first the one that counts failures of the address.
    public static func keys(address: String, countsAll: Bool, under key: KeyedHash) -> [ThrottleKey] {
        let client = ClientAddressKey(address)
        let block = client?.bytes ?? Array(address.utf8)
        let network = client?.network
        // All in the group of the widest: a store counts them in one step.
        let ofNetwork = network.map { makeKey(.network, [$0], key) }
        let ofAddress = makeKey(.address, [block], key, group: ofNetwork?.group)
        var keys = [ofAddress] + [ofNetwork].compactMap(\.self)
        if countsAll {
            keys.append(makeKey(.attempts, [block], key, group: ofAddress.group))
            if let network { keys.append(makeKey(.attemptsOfNetwork, [network], key, group: ofAddress.group)) }
        }
        return keys
    }

    /// Whether an account is counted by exactly its own name. Otherwise its failures may belong to another account that
    /// folds to the same name, and a success does not reset them.
    public static func isFolded(_ account: AccountName) -> Bool {
        account.canonicalBytes == account.throttleBytes
    }

    /// Returns the seconds for `Retry-After` (RFC 9110 §10.2.3), rounded up, so that a retry after them is not too
    /// early.
    public static func retryAfter(_ wait: Duration) -> Int {
        let milliseconds = max(1, wait.wholeMilliseconds)
        return Int(milliseconds / 1_000 + (milliseconds % 1_000 == 0 ? 0 : 1))
    }

    /// Five failures in two minutes, then a wait of 1 s that doubles up to 5 minutes.
    ///
    /// The count expires after an hour without an attempt. In that hour a client that continues at the maximum wait has
    /// twelve attempts; a client that pauses has thirteen until the waits are as long again. Neither strategy is
    /// better. `maxDelay` is longer than the longest wait, as for ``address``.
    private static let accountAndAddress = ThrottleRule(
        limit: 5, window: .seconds(120),
        delay: .doubling(first: .seconds(1), longest: .seconds(300), memory: .seconds(3_600)),
        maxDelay: .seconds(360))

    /// Thirty failures in ten minutes, then no attempts until the ten minutes are over. A successful sign-in removes
    /// only its own attempt: otherwise an attacker with an account could reset the count and guess indefinitely.
    /// `maxDelay` is longer than the window, because the wait seems that much longer to a replica whose clock is behind.
    private static let address = ThrottleRule(
        limit: 30, window: .seconds(600), delay: .window, maxDelay: .seconds(660))

    private static let network = attempts(UInt32(RateKey.blockFactor) * address.limit)

    /// A hundred failures in an hour, then one attempt every three seconds until the hour is over.
    ///
    /// Never a lock: an attacker who knows an e-mail address could otherwise lock out its owner permanently. Three
    /// seconds leave many attackers 1,200 guesses an hour, which is too few to find a reasonable password, and leave
    /// the owner, who receives the wait as `Retry-After`, a chance at each turn. `maxDelay` is longer than the wait,
    /// so that replicas with slightly different clocks still throttle attempts together.
    private static let account = ThrottleRule(
        limit: 100, window: .seconds(3_600), delay: .constant(.seconds(3)), maxDelay: .seconds(60))

    /// At most `limit` attempts in ten minutes, then none until they are over; `maxDelay` as for ``address``.
    private static func attempts(_ limit: UInt32) -> ThrottleRule {
        ThrottleRule(limit: limit, window: .seconds(600), delay: .window, maxDelay: .seconds(660))
    }

    private static func makeKey(
        _ scope: ThrottleKey.Scope, _ parts: [[UInt8]], _ key: KeyedHash, group: UInt64? = nil
    ) -> ThrottleKey {
        ThrottleKey(scope, hash: key.hash(scope: scope.rawValue, parts), group: group)
    }
}

/// A rule that delays attempts counted under one key. Pure: the time is an argument.
///
/// An attempt counts as failed from the moment it is allowed. The state of a key can be deleted at ``end(of:)``, so a
/// store holds only the state of recent attempts.
public struct ThrottleRule: Sendable, Hashable {
    /// How long the next attempt waits after ``limit`` has been reached.
    public enum Delay: Sendable, Hashable {
        /// Until the window is over.
        case window
        /// A constant wait.
        case constant(Duration)
        /// A wait that doubles each time. The count is kept for `memory` after the last wait, so that waiting for a
        /// reset is no advantage.
        case doubling(first: Duration, longest: Duration, memory: Duration)
    }

    /// The number of failed attempts before the next one has to wait.
    public let limit: UInt32
    /// The period in which attempts are counted together.
    public let window: Duration
    /// How long the next attempt waits then.
    public let delay: Delay
    /// The maximum wait of an attempt, by a minute longer than the waits that the rule sets: they seem that much longer
    /// to an attempt with an earlier time, of another replica or one that was overtaken. A state with a longer wait was
    /// written before the clock jumped back, or by a replica whose clock is far ahead; it delays no attempt.
    public let maxDelay: Duration

    package init(limit: UInt32, window: Duration, delay: Delay, maxDelay: Duration) {
        self.limit = limit
        self.window = window
        self.delay = delay
        self.maxDelay = maxDelay
    }

    /// Returns how long an attempt has to wait; `nil` allows it.
    public func wait(_ state: ThrottleState?, now: SessionTime) -> Duration? {
        guard let state = current(state, now: now), now < state.notBefore else { return nil }
        return state.notBefore - now
    }

    /// Returns the state with one more attempt.
    public func recordingAttempt(_ state: ThrottleState?, now: SessionTime) -> ThrottleState {
        guard var state = current(state, now: now) else {
            return ThrottleState(count: 1, since: now, notBefore: next(count: 1, since: now, now: now))
        }
        // Replicas share the state; saturating is sufficient for all of them.
        state.count = state.count == .max ? .max : state.count + 1
        state.notBefore = next(count: state.count, since: state.since, now: now)
        return state
    }

    /// Returns the state with one attempt less: it did not fail, or its result is unknown.
    public func removingAttempt(_ state: ThrottleState?, now: SessionTime) -> ThrottleState? {
        guard var state = current(state, now: now), state.count > 1 else { return nil }
        state.count -= 1
        state.notBefore = min(state.notBefore, next(count: state.count, since: state.since, now: now))
        return state
    }

    /// Returns when a state has no effect any more.
    public func end(of state: ThrottleState) -> SessionTime {
        max(state.since + window, state.notBefore + (state.count >= limit ? memory : .zero))
    }

    /// Returns how long a store has to keep a state; not positive if it has expired. Bounded even if the clock jumps.
    public func lifetime(of state: ThrottleState, now: SessionTime) -> Duration {
        min(end(of: state) - now, window + maxDelay + memory)
    }

    private var memory: Duration {
        if case .doubling(_, _, let memory) = delay { memory } else { .zero }
    }

    /// Returns the effective state: `nil` if it has expired, and without times that only a clock error can explain.
    private func current(_ state: ThrottleState?, now: SessionTime) -> ThrottleState? {
        guard var state else { return nil }
        if state.since > now { state.since = now }
        if state.notBefore - now > maxDelay { state.notBefore = now }
        return now < end(of: state) ? state : nil
    }

    /// A time before any attempt. Not the time of the current attempt: one that began a moment earlier on another
    /// replica would have to wait for it.
    private static let always = SessionTime(milliseconds: 0)

    private func next(count: UInt32, since: SessionTime, now: SessionTime) -> SessionTime {
        guard count >= limit else { return Self.always }
        switch delay {
        case .window: return since + window
        case .constant(let duration): return now + duration
        case .doubling(let first, let longest, _):
            // 20 doublings exceed any practical limit.
            let doublings = min(count - limit, 20)
            return now + min(first * (1 << doublings), longest)
        }
    }
}
