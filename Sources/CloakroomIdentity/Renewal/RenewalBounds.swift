/// The limits for token refreshes in a process.
public struct RefreshLimits: Sendable, Equatable {
    /// The maximum number of requests that wait for refreshes.
    public var waiters: Int
    /// The maximum number of requests that wait for the refresh of one session.
    public var waitersPerSession: Int
    /// The maximum number of concurrent refreshes.
    public var concurrentRefreshes: Int
    /// The maximum number of sessions whose failures are tracked.
    public var trackedSessions: Int

    /// Creates limits.
    public init(
        waiters: Int = 10_000, waitersPerSession: Int = 1_000, flights: Int = 10_000, remembered: Int = 100_000
    ) {
        self.waiters = waiters
        self.waitersPerSession = waitersPerSession
        self.concurrentRefreshes = flights
        self.trackedSessions = remembered
    }
}
