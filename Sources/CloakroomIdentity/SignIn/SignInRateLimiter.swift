import CloakroomCore
import Synchronization

/// Counts sign-in attempts in the store that the replicas share.
///
/// An attempt is counted as a failure before the upstream is called and removed afterwards if it was none. Otherwise a
/// thousand concurrent guesses would all pass because none has failed yet. An attempt that is delayed because of others
/// that are undecided waits for them: see ``UndecidedAttempts``. Without a store no attempt is admitted.
struct SignInRateLimiter: Sendable {
    let store: any ThrottleStore
    let key: KeyedHash
    /// ``AccountsConfiguration/signInsPerAddress``.
    let signInsPerAddress: Int
    var undecided = UndecidedAttempts()

    enum Admission: Sendable {
        /// The attempt is admitted and counted.
        case admitted(SignInAttempt)
        /// The attempt is rejected for this duration.
        case throttled(Duration)
    }

    func admit(
        _ account: AccountName, from address: String, now: SessionTime
    ) async throws(SessionStoreError) -> Admission {
        let keys = SignInThrottle.keys(
            account: account, address: address, countsAll: signInsPerAddress > 0, under: key)
        return try await admit(keys, forgetsFailures: SignInThrottle.isFolded(account), now: now)
    }

    /// Admits the callback of a login: its user is not known yet, so it is counted for its address alone, together with
    /// sign-ins with credentials.
    func admit(from address: String, now: SessionTime) async throws(SessionStoreError) -> Admission {
        try await admit(keys(address), forgetsFailures: false, now: now)
    }

    /// How long a login from an address would have to wait at its callback; `nil` if it would be admitted. Counts
    /// nothing.
    func wait(from address: String, now: SessionTime) async throws(SessionStoreError) -> Duration? {
        let counters = counters(keys(address))
        let states = try await store.throttleStates(counters.map(\.key), now: now)
        return zip(counters, states).compactMap { $0.rule.wait($1, now: now) }.max()
    }

    private func keys(_ address: String) -> [ThrottleKey] {
        SignInThrottle.keys(address: address, countsAll: signInsPerAddress > 0, under: key)
    }

    private func counters(_ keys: [ThrottleKey]) -> [ThrottleCounter] {
        keys.map { ThrottleCounter($0, SignInThrottle.rule($0.scope, attemptsPerAddress: signInsPerAddress)) }
    }

    private func admit(
        _ keys: [ThrottleKey], forgetsFailures: Bool, now: SessionTime
    ) async throws(SessionStoreError) -> Admission {
        let start = ContinuousClock.now
        let counters = counters(keys)
        var turn = await undecided.begin(keys.filter(\.scope.isReleasedBySuccess))
        while true {
            let time = turn.hasWaited ? now + (ContinuousClock.now - start) : now
            let result: ThrottleResult
            do throws(SessionStoreError) {
                result = try await store.countAttempt(counters, now: time)
            } catch {
                undecided.counted(turn)
                undecided.decided(turn.keys, isReleased: false)
                throw error
            }
            switch result {
            case .counted(let counts):
                undecided.counted(turn)
                return .admitted(
                    SignInAttempt(
                        store: store, counts: counts, forgetsFailures: forgetsFailures, among: undecided,
                        keys: turn.keys))
            case .delayed(let waits):
                let blocking = zip(keys, waits).filter { $1 > .zero }.map(\.0)
                let elapsed = ContinuousClock.now - start
                guard let next = await undecided.delayed(turn, by: blocking, elapsed: elapsed) else {
                    return .throttled(waits.max() ?? .seconds(1))
                }
                turn = next
            }
        }
    }
}

extension ThrottleKey.Scope {
    /// Whether a success of an attempt permits another one of the same address. The counts of an account from all
    /// addresses are not among them: clients of one address do not wait for those of others.
    fileprivate var isReleasedBySuccess: Bool { self != .account && !countsAll }
}

/// One attempt that is counted as a failure unless it is reported otherwise.
final class SignInAttempt: Sendable {
    private let store: any ThrottleStore
    private let counts: [ThrottleCount]
    private let forgetsFailures: Bool
    private let undecided: UndecidedAttempts
    private let keys: [ThrottleKey]
    private let isDecided = Atomic(false)

    /// - Parameters:
    ///   - forgetsFailures: Whether the failures that a success clears are those of the typed name only:
    ///     ``SignInThrottle/isFolded(_:)``.
    ///   - keys: The keys of the attempt among the undecided ones.
    init(
        store: any ThrottleStore, counts: [ThrottleCount], forgetsFailures: Bool, among undecided: UndecidedAttempts,
        keys: [ThrottleKey]
    ) {
        self.store = store
        self.counts = counts
        self.forgetsFailures = forgetsFailures
        self.undecided = undecided
        self.keys = keys
    }

    deinit { failed() }

    /// Reports valid credentials. The account's failures from this address are cleared; under the other keys only this
    /// attempt is removed. If the count may belong to another account whose name folds to the same one, only this
    /// attempt is removed there too. The attempt stays counted among all attempts. If the store fails now, the counts
    /// are too high, which costs no more than a delay.
    func succeeded(now: SessionTime) async {
        var removed = counts.filter { !$0.counter.key.scope.countsAll }
        for index in removed.indices where removed[index].counter.key.scope == .accountAndAddress {
            removed[index].forgetsAll = forgetsFailures
        }
        await remove(removed, now: now)
    }

    /// The upstream could not be reached or failed (5xx), so the credentials were not checked.
    func release(now: SessionTime) async {
        await remove(counts, now: now)
    }

    /// The attempt stays counted as a failure. Needs not be called before the attempt is deallocated.
    func failed() {
        decide(isReleased: false)
    }

    private func remove(_ counts: [ThrottleCount], now: SessionTime) async {
        let isReleased: Void? = try? await store.removeAttempt(counts, now: now)
        decide(isReleased: isReleased != nil)
    }

    private func decide(isReleased: Bool) {
        guard !isDecided.exchange(true, ordering: .relaxed) else { return }
        undecided.decided(keys, isReleased: isReleased)
    }
}
