import Synchronization

/// The requests in flight of a session or a route, which all objects of it share.
package final class RequestCount: Sendable {
    private let inFlight = Atomic<Int>(0)

    package init() {}

    /// Counts a request, which ends with ``end()``.
    /// - Returns: Whether the limit allows it. Otherwise nothing is counted.
    package func begin(limit: Int) -> Bool {
        guard inFlight.wrappingAdd(1, ordering: .relaxed).newValue > limit else { return true }
        end()
        return false
    }

    /// A request that was counted has ended.
    package func end() { inFlight.wrappingSubtract(1, ordering: .relaxed) }
}

/// The counts of sessions by their keys, each for as long as an object of the session exists.
package final class RequestCounts: Sendable {
    private struct State {
        var counts: [SessionKey: RequestCount] = [:]
        var limit = 64
    }

    private let state = Mutex(State())

    package init() {}

    package var count: Int { state.withLock { $0.counts.count } }

    package subscript(key: SessionKey) -> RequestCount? { state.withLock { $0.counts[key] } }

    /// Lets a session, of which no request has begun yet, count requests together with its other objects.
    package func share(_ session: Session) {
        state.withLock { state in
            if let requests = state.counts[session.key] { return session.share(requests) }
            if state.counts.count >= state.limit {
                // Of a copied list: while the dictionary is iterated, a change copies it, and each value has two references.
                for key in Array(state.counts.keys) where isKnownUniquelyReferenced(&state.counts[key]) {
                    state.counts[key] = nil
                }
                state.limit = max(64, state.counts.count * 2)
            }
            state.counts[session.key] = session.requests
        }
    }

    package func remove(_ key: SessionKey) { state.withLock { $0.counts[key] = nil } }
}
