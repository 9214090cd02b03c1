/// How much renewing may be under way in a process.
public struct RefreshLimits: Sendable, Equatable {
    /// The most requests that wait for renewals.
    public var waiters: Int
    /// The most requests that wait for one session's renewal.
    public var waitersPerSession: Int
    /// The most renewals at a time.
    public var concurrentRefreshes: Int
    /// The most sessions whose failures are remembered.
    public var trackedSessions: Int

    /// Makes bounds.
    public init(
        waiters: Int = 10_000, waitersPerSession: Int = 1_000, flights: Int = 10_000, remembered: Int = 100_000
    ) {
        self.waiters = waiters
        self.waitersPerSession = waitersPerSession
        self.concurrentRefreshes = flights
        self.trackedSessions = remembered
    }
}
