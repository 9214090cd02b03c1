import CloakroomCore

/// Counts attempts to sign in, in the store that replicas share.
///
/// An attempt is counted as a failure before anything goes upstream and taken back afterwards if it was none, so that a
/// thousand guesses at once do not all pass because none has failed yet. States change by compare-and-set. Who loses
/// again and again is told to come back in a second, and who finds no store is let through nowhere: both fail closed.
struct ThrottledAttempts: Sendable {
    /// How often a state that somebody else keeps changing is read again.
    private static let tries = 16

    let store: any ThrottleStore
    let key: KeyedHash

    /// What came of asking whether an attempt may go on.
    enum Admission: Sendable {
        /// It may, and is counted.
        case admitted(ThrottledAttempt)
        /// It may not, for so long.
        case throttled(Duration)
    }

    /// Asks whether somebody may try to sign in now.
    func admit(
        _ account: AccountName, from address: String, now: Timestamp
    ) async throws(SessionStoreError) -> Admission {
        let keys = SignInThrottle.keys(account: account, address: address, under: key)
        for _ in 0..<Self.tries {
            let states = try await store.throttleStates(keys, now: now)
            let entries = zip(keys, states)
            let wait = entries.compactMap { SignInThrottle.rule($0.scope).wait($1, now: now) }.max()
            if let wait { return .throttled(wait) }
            if let attempt = try await reserve(entries, now: now) { return .admitted(attempt) }
        }
        return .throttled(.seconds(1))
    }

    /// Counts an attempt under all of its names, or under none.
    /// - Returns: `nil` if somebody has changed one of the states since they were read.
    private func reserve(
        _ entries: Zip2Sequence<[ThrottleKey], [ThrottleState?]>, now: Timestamp
    ) async throws(SessionStoreError) -> ThrottledAttempt? {
        var attempt = ThrottledAttempt(store: store)
        for (key, state) in entries {
            do throws(SessionStoreError) {
                guard try await attempt.count(key, over: state, now: now) else {
                    await attempt.takeBack(now: now)
                    return nil
                }
            } catch {
                await attempt.takeBack(now: now)
                throw error
            }
        }
        return attempt
    }
}

/// One attempt that is counted as a failure until it turns out to be none. Doing nothing leaves it one.
struct ThrottledAttempt: Sendable {
    private static let tries = 16

    private struct Reservation: Sendable {
        let key: ThrottleKey
        let before: ThrottleState?
        let after: ThrottleState

        var rule: ThrottleRule { SignInThrottle.rule(key.scope) }
    }

    private let store: any ThrottleStore
    private var reservations: [Reservation] = []

    init(store: any ThrottleStore) {
        self.store = store
    }

    /// Counts it under one more name.
    /// - Returns: Whether the state was still the given one.
    mutating func count(
        _ key: ThrottleKey, over state: ThrottleState?, now: Timestamp
    ) async throws(SessionStoreError) -> Bool {
        let rule = SignInThrottle.rule(key.scope)
        let reservation = Reservation(key: key, before: state, after: rule.counting(state, now: now))
        let lifetime = rule.lifetime(of: reservation.after, now: now)
        guard
            try await store.replaceThrottleState(key, state, with: reservation.after, lifetime: lifetime, now: now)
        else { return false }
        reservations.append(reservation)
        return true
    }

    /// The credentials were right: what the account has failed from this address is forgotten, and elsewhere this attempt
    /// alone is taken back. A store that fails now leaves too many counted, which costs no more than a wait.
    func succeeded(now: Timestamp) async {
        for reservation in reservations {
            if reservation.key.scope == .accountAndAddress {
                await replace(reservation, now: now) { _ in nil }
            } else {
                await takeBack(reservation, now: now)
            }
        }
    }

    /// Nobody has said whether the credentials were right.
    func takeBack(now: Timestamp) async {
        for reservation in reservations { await takeBack(reservation, now: now) }
    }

    private func takeBack(_ reservation: Reservation, now: Timestamp) async {
        await replace(reservation, now: now) { state in
            // Nothing has happened since: everything is as it was, waits included.
            state == reservation.after ? reservation.before : reservation.rule.takingBack(state, now: now)
        }
    }

    private func replace(
        _ reservation: Reservation, now: Timestamp, with change: (ThrottleState) -> ThrottleState?
    ) async {
        let rule = reservation.rule
        var state: ThrottleState? = reservation.after
        for _ in 0..<Self.tries {
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
