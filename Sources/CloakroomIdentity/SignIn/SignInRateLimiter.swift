import CloakroomCore

/// Counts sign-in attempts in the store that the replicas share.
///
/// An attempt is counted as a failure before the upstream is called and removed afterwards if it was none. Otherwise a
/// thousand concurrent guesses would all pass because none has failed yet. States change by compare-and-set. An attempt
/// that loses repeatedly is delayed by one second, and without a store no attempt is admitted: both fail closed.
struct SignInRateLimiter: Sendable {
    let store: any ThrottleStore
    let key: KeyedHash
    /// ``AccountsConfiguration/signInsPerAddress``.
    let signInsPerAddress: Int

    enum Admission: Sendable {
        /// The attempt is admitted and counted.
        case admitted(SignInAttempt)
        /// The attempt is rejected for this duration.
        case throttled(Duration)
    }

    func admit(
        _ account: AccountName, from address: String, now: Timestamp
    ) async throws(SessionStoreError) -> Admission {
        var keys = SignInThrottle.keys(account: account, address: address, under: key)
        if signInsPerAddress > 0 {
            keys += SignInThrottle.attemptKeys(account: account, address: address, under: key)
        }
        return try await admit(keys, forgetsFailures: SignInThrottle.isFolded(account), now: now)
    }

    /// Admits the callback of a login: its user is not known yet, so it is counted for its address alone, together with
    /// sign-ins with credentials.
    func admit(from address: String, now: Timestamp) async throws(SessionStoreError) -> Admission {
        try await admit(keys(address), forgetsFailures: false, now: now)
    }

    /// How long a login from an address would have to wait at its callback; `nil` if it would be admitted. Counts
    /// nothing.
    func wait(from address: String, now: Timestamp) async throws(SessionStoreError) -> Duration? {
        let keys = keys(address)
        let states = try await store.throttleStates(keys, now: now)
        return zip(keys, states).compactMap { key, state in
            SignInThrottle.rule(key.scope, attemptsPerAddress: signInsPerAddress).wait(state, now: now)
        }.max()
    }

    private func keys(_ address: String) -> [ThrottleKey] {
        let keys = SignInThrottle.keys(address: address, under: key)
        return signInsPerAddress > 0 ? [keys.failures, keys.attempts] : [keys.failures]
    }

    private func admit(
        _ keys: [ThrottleKey], forgetsFailures: Bool, now: Timestamp
    ) async throws(SessionStoreError) -> Admission {
        let states = try await store.throttleStates(keys, now: now)
        var attempt = SignInAttempt(
            store: store, signInsPerAddress: signInsPerAddress, forgetsFailures: forgetsFailures)
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

/// One attempt that is counted as a failure unless it is reported otherwise.
struct SignInAttempt: Sendable {
    /// The maximum number of reads of a state that other attempts keep changing. Each lost compare-and-set means that
    /// another attempt succeeded, and their number is bounded by the concurrent attempts allowed per address.
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

    /// - Parameter forgetsFailures: Whether the failures that a success clears are those of the typed name only:
    ///   ``SignInThrottle/isFolded(_:)``.
    init(store: any ThrottleStore, signInsPerAddress: Int, forgetsFailures: Bool) {
        self.store = store
        self.signInsPerAddress = signInsPerAddress
        self.forgetsFailures = forgetsFailures
    }

    func rule(_ scope: ThrottleKey.Scope) -> ThrottleRule {
        SignInThrottle.rule(scope, attemptsPerAddress: signInsPerAddress)
    }

    /// Counts the attempt under one more key.
    /// - Parameter known: The state as it was read before.
    /// - Returns: The delay for the attempt; `nil` if it is counted.
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

    /// Reports valid credentials. The account's failures from this address are cleared; under the other keys only this
    /// attempt is removed. If the count may belong to another account whose name folds to the same one, only this
    /// attempt is removed there too. The attempt stays counted among all attempts. If the store fails now, the counts
    /// are too high, which costs no more than a delay.
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
            // The state has not changed since the reservation: restore the earlier one, including its delays.
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
            // An expired state is not stored again.
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
