public import CloakroomCore

/// The metrics of rate limits, and the limit of log lines about them.
///
/// Created once per process; all methods can be called on any thread.
public final class RateLimitMetrics: Sendable {
    private let scope: MetricScope
    private let keys: GaugeHandle
    private let evictions: CounterHandle
    private let line = LogRateLimiter(interval: .seconds(60))

    init(registry: PrometheusRegistry) {
        scope = MetricScope(registry)
        keys = scope.gauge(
            "cloakroom_rate_limit_keys", help: "Keys of rate limits with requests that are not paid for.")
        evictions = scope.counter(
            "cloakroom_rate_limit_evictions_total", help: "Keys of rate limits that were forgotten too early.")
    }

    /// The counters of a limit.
    /// - Parameter name: A configured name.
    public func limit(_ name: String) -> RateLimitCounters {
        RateLimitCounters(
            scope.counters(
                "cloakroom_rate_limit_total", help: "Requests that a rate limit counted, by limit and outcome.",
                by: "outcome", [("limit", name)]))
    }

    /// Counts a key that was replaced although its requests were not paid for.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    /// - Returns: The number of suppressed lines, if it is to be logged: at most once a minute.
    public func evicted(now: UInt64) -> Int? {
        evictions.increment()
        return line.allow(at: now)
    }

    /// Sets the gauge of keys.
    /// - Parameter now: As for the table.
    public func show(_ table: RateLimitTable, now: UInt64) { keys.set(Int64(table.count(now: now))) }
}

/// `cloakroom_rate_limit_total` of one limit.
public struct RateLimitCounters: Sendable {
    /// Requests within the limit.
    public let allowed: CounterHandle
    /// Requests that got 429.
    public let rejected: CounterHandle
    /// Requests beyond a limit that is not enforced.
    public let observed: CounterHandle

    enum Outcome: String, CaseIterable {
        case allowed, rejected, observed
    }

    init(_ counters: [Outcome: CounterHandle]) {
        let handle = { (outcome: Outcome) in counters[outcome] ?? CounterHandle() }
        allowed = handle(.allowed)
        rejected = handle(.rejected)
        observed = handle(.observed)
    }
}
