import CloakroomCore

/// Counts attempts to sign in, in the store that replicas share.
///
/// An attempt is counted as a failure before anything goes upstream and taken back afterwards if it was none, so that a
/// thousand guesses at once do not all pass because none has failed yet. States change by compare-and-set. Who loses
/// again and again is told to come back in a second, and who finds no store is let through nowhere: both fail closed.
struct SignInRateLimiter: Sendable {
    let store: any ThrottleStore
    let key: KeyedHash
    /// ``AccountsConfiguration/signInsPerAddress``.
    let signInsPerAddress: Int

    /// What came of asking whether an attempt may go on.
    enum Admission: Sendable {
        /// It may, and is counted.
        case admitted(SignInAttempt)
        /// It may not, for so long.
        case throttled(Duration)
    }

    /// Asks whether somebody may try to sign in now.
    func admit(
        _ account: AccountName, from address: String, now: Timestamp
    ) async throws(SessionStoreError) -> Admission {
        var keys = SignInThrottle.keys(account: account, address: address, under: key)
        if signInsPerAddress > 0 {
            keys += SignInThrottle.attemptKeys(account: account, address: address, under: key)
        }
        let states = try await store.throttleStates(keys, now: now)
        var attempt = SignInAttempt(
            store: store, signInsPerAddress: signInsPerAddress, forgetsFailures: SignInThrottle.isFolded(account))
        let waits = zip(keys, states).compactMap { attempt.rule($0.scope).wait($1, now: now) }
        if let longest = waits.max() { return .throttled(longest) }
        for (key, state) in zip(keys, states) {
            do throws(SessionStoreError) {
                guard let wait = try await attempt.count(key, over: state, now: now) else { continue }
                await attempt.release(now: now)
                return .throttled(wait)
            } catch {
                await attempt.release(now: now)
                throw error
            }
        }
        return .admitted(attempt)
    }
}

/// One attempt that is counted as a failure until it turns out to be none. Doing nothing leaves it one.
struct SignInAttempt: Sendable {
    /// How often a state that others keep changing is read again. Each loss is somebody else's gain, and of those there are
    /// no more at a time than an address may have attempts under way.
    private static let maxAttempts = 100

    private struct Reservation: Sendable {
        let key: ThrottleKey
        let before: ThrottleState?
        let after: ThrottleState
        let rule: ThrottleRule
    }

    private let store: any ThrottleStore
    private let signInsPerAddress: Int
    private let forgetsFailures: Bool
    private var reservations: [Reservation] = []

    /// - Parameter forgetsFailures: Whether the failures that a success forgets are those of the typed name only:
    ///   ``SignInThrottle/isFolded(_:)``.
    init(store: any ThrottleStore, signInsPerAddress: Int, forgetsFailures: Bool) {
        self.store = store
        self.signInsPerAddress = signInsPerAddress
        self.forgetsFailures = forgetsFailures
    }

    func rule(_ scope: ThrottleKey.Scope) -> ThrottleRule {
        SignInThrottle.rule(scope, attemptsPerAddress: signInsPerAddress)
    }

    /// Counts it under one more name.
    /// - Parameter known: The state as it was read before.
    /// - Returns: How long the attempt has to wait; `nil` if it is counted.
    mutating func count(
        _ key: ThrottleKey, over known: ThrottleState?, now: Timestamp
    ) async throws(SessionStoreError) -> Duration? {
        let rule = rule(key.scope)
        var state = known
        for _ in 0..<Self.maxAttempts {
            if let wait = rule.wait(state, now: now) { return wait }
            let reservation = Reservation(
                key: key, before: state, after: rule.recordingAttempt(state, now: now), rule: rule)
            let lifetime = rule.lifetime(of: reservation.after, now: now)
            let holdsSnapshot = try await store.replaceThrottleState(
                key, state, with: reservation.after, lifetime: lifetime, now: now)
            if holdsSnapshot {
                reservations.append(reservation)
                return nil
            }
            state = try await store.throttleStates([key], now: now).first ?? nil
        }
        return .seconds(1)
    }

    /// The credentials were right: what the account has failed from this address is forgotten, and elsewhere this attempt
    /// alone is taken back. Where the count may belong to another account, whose name folds to the same one, only this
    /// attempt is taken back there too. It stays counted among all attempts. A store that fails now leaves too many counted, which
    /// costs no more than a wait.
    func succeeded(now: Timestamp) async {
        for reservation in reservations {
            switch reservation.key.scope {
            case .accountAndAddress where forgetsFailures: await replace(reservation, now: now) { _ in nil }
            case .accountAndAddress, .address, .account, .spelling: await release(reservation, now: now)
            case .attemptsOfAccount, .attempts: break
            }
        }
    }

    /// The upstream could not be reached or failed (5xx), so the credentials were not checked.
    func release(now: Timestamp) async {
        for reservation in reservations { await release(reservation, now: now) }
    }

    private func release(_ reservation: Reservation, now: Timestamp) async {
        await replace(reservation, now: now) { state in
            // Nothing has happened since: everything is as it was, waits included.
            state == reservation.after ? reservation.before : reservation.rule.removingAttempt(state, now: now)
        }
    }

    private func replace(
        _ reservation: Reservation, now: Timestamp, with change: (ThrottleState) -> ThrottleState?
    ) async {
        let rule = reservation.rule
        var state: ThrottleState? = reservation.after
        for _ in 0..<Self.maxAttempts {
            guard let old = state else { return }
            // What is over is not kept again.
            let new = change(old).flatMap { rule.lifetime(of: $0, now: now) > .zero ? $0 : nil }
            let lifetime = new.map { rule.lifetime(of: $0, now: now) } ?? .zero
            do throws(SessionStoreError) {
                let isReplaced = try await store.replaceThrottleState(
                    reservation.key, old, with: new, lifetime: lifetime, now: now)
                if isReplaced { return }
                state = try await store.throttleStates([reservation.key], now: now).first ?? nil
            } catch {
                return
            }
        }
    }
}
