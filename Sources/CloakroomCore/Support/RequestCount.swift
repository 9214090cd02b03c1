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
