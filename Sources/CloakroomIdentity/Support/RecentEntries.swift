import CloakroomCore
import Synchronization

/// The entries that were used last, in two generations, and the work in progress that makes others: one for a key at a time.
///
/// If the newer generation has half of the entries or bytes, it replaces the older one, whose entries are dropped unless
/// they were used since.
final class RecentEntries<Value: Sendable>: Sendable {
    struct State {
        let maxEntries: Int
        var newer: [SessionKey: (value: Value, size: Int)] = [:]
        var older: [SessionKey: (value: Value, size: Int)] = [:]
        var newerBytes = 0
        var displaced: [SessionKey: (value: Value, size: Int)] = [:]
        var flights: [SessionKey: Task<RefreshOutcome, Never>] = [:]
        /// Counts the flights of clients; `nil` if they are limited elsewhere.
        var shares: ClientShares?

        subscript(key: SessionKey) -> Value? {
            mutating get {
                if let found = newer[key] { return found.value }
                guard let found = older[key] else { return nil }
                insert(found.value, size: found.size, at: key)
                return found.value
            }
        }

        mutating func insert(_ value: Value, size: Int, at key: SessionKey) {
            if newer.count >= maxEntries / 2 || newerBytes + size > VerifiedTokens.maxBytes / 2 {
                (displaced, older, newer, newerBytes) = (older, newer, [:], 0)
            }
            newerBytes += size - (newer.updateValue((value, size), forKey: key)?.size ?? 0)
        }

        mutating func remove(_ key: SessionKey) {
            newerBytes -= newer.removeValue(forKey: key)?.size ?? 0
            older[key] = nil
        }
    }

    let state: Mutex<State>

    init(maxEntries: Int, shares: ClientShares? = nil) {
        state = Mutex(State(maxEntries: maxEntries, shares: shares))
    }

    /// Displaced entries, up to half of all, are released without the lock.
    func access<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        var displaced: [SessionKey: (value: Value, size: Int)] = [:]
        return state.withLock { state in
            defer { swap(&displaced, &state.displaced) }
            return body(&state)
        }
    }

    /// Does the work for a key, or waits for that in progress.
    /// - Parameters:
    ///   - client: The one that the work counts for.
    ///   - isPermitted: Called if there is no work in progress for the key.
    ///   - known: The result of earlier work: a request that looked before the last one ended begins another after it.
    /// - Returns: `nil` if the work is not permitted.
    func run(
        _ key: SessionKey, for client: RateKey, if isPermitted: () -> Bool = { true },
        known: @escaping @Sendable () -> RefreshOutcome?, work: @escaping @Sendable () async -> RefreshOutcome
    ) async -> RefreshOutcome? {
        let task = state.withLock { state -> Task<RefreshOutcome, Never>? in
            if let flight = state.flights[key] { return flight }
            guard isPermitted(), state.shares?.take(client) != false else { return nil }
            let task = Task {
                defer {
                    self.state.withLock {
                        $0.flights[key] = nil
                        $0.shares?.release(client)
                    }
                }
                if let known = known() { return known }
                return await work()
            }
            state.flights[key] = task
            return task
        }
        return await task?.value
    }
}
