public import CloakroomCore

/// Metrics of clients that were too slow or had too many requests, and the limit of log lines about them.
///
/// Created once per process; all methods can be called on any thread.
public final class ClientLimitMetrics: Sendable {
    private let slow: [SlowClientDirection: [SlowClientCause: CounterHandle]]
    private let caps: [ClientCap: CounterHandle]
    /// The limits of log lines about each kind of slow client.
    private let lines: [SlowClientDirection: [SlowClientCause: LogRateLimiter]]
    private let scope: MetricScope
    private let rateKeys: GaugeHandle
    private let rateEvictions: CounterHandle
    private let evictionLines = LogRateLimiter(interval: .seconds(60))
    /// Settlements of shared rate limits.
    public let settlements: [RateSettlementOutcome: CounterHandle]

    init(registry: PrometheusRegistry) {
        scope = MetricScope(registry)
        slow = scope.counters(
            "cloakroom_slow_clients_total",
            help: "Requests ended because the client was too slow, by direction and cause.", by: "direction", "cause")
        lines = slow.mapValues { $0.mapValues { _ in LogRateLimiter(interval: .seconds(60)) } }
        caps = scope.counters(
            "cloakroom_client_cap_total", help: "Requests rejected because too many were in flight, by limit.",
            by: "cap")
        rateKeys = scope.gauge(
            "cloakroom_rate_limit_keys", help: "Keys of rate limits with requests that are not paid for.")
        rateEvictions = scope.counter(
            "cloakroom_rate_limit_evictions_total", help: "Keys of rate limits that were forgotten too early.")
        settlements = scope.counters(
            "cloakroom_rate_limit_settlements_total",
            help: "Settlements of shared rate limits with the other gateways, by outcome.", by: "outcome")
    }

    /// Counts a client that was too slow.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    /// - Returns: Whether to log it: at most once a minute for each direction and cause.
    public func slowClient(_ direction: SlowClientDirection, _ cause: SlowClientCause, now: UInt64) -> Bool {
        slow[direction]?[cause]?.increment()
        return lines[direction]?[cause]?.allow(at: now) != nil
    }

    /// Counts a request that was rejected because of a limit.
    public func rejected(_ cap: ClientCap) { caps[cap]?.increment() }

    /// Counts the requests with an outcome at a rate limit.
    /// - Parameter limit: A configured name.
    public func rate(_ outcome: RateLimitOutcome, _ limit: String) -> CounterHandle {
        scope.counter(
            "cloakroom_rate_limit_total", help: "Requests that a rate limit counted, by limit and outcome.",
            [("limit", limit), ("outcome", outcome.rawValue)])
    }

    /// Counts a key of rate limits that was replaced although its requests were not paid for.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    /// - Returns: The number of suppressed lines, if it is to be logged: at most once a minute.
    public func rateKeyEvicted(now: UInt64) -> Int? {
        rateEvictions.increment()
        return evictionLines.allow(at: now)
    }

    /// Sets the gauge of keys.
    /// - Parameter now: As for the table.
    public func show(_ table: RateLimitTable, now: UInt64) { rateKeys.set(Int64(table.count(now: now))) }
}

/// What a rate limit did with a request: the label `outcome`.
public enum RateLimitOutcome: String, Sendable {
    /// It was within the limit.
    case allowed
    /// It got 429.
    case rejected
    /// It was beyond a limit that is not enforced.
    case observed
}

/// The result of a settlement: the label `outcome`.
public enum RateSettlementOutcome: String, Sendable, CaseIterable {
    /// The store has replied.
    case done
    /// What was to be settled is forgotten.
    case failed
}

/// What a slow client did: the label `direction`.
public enum SlowClientDirection: String, Sendable, CaseIterable {
    /// It sent a request body.
    case upload
    /// It read a response.
    case download
}

/// Why a slow client was ended: the label `cause`.
public enum SlowClientCause: String, Sendable, CaseIterable {
    /// It was slower than `limits.minimumRate`.
    case rate
    /// It was slower than `limits.pressureRate` while other requests waited for a connection.
    case pressure
}

/// A limit of requests in flight: the label `cap`.
public enum ClientCap: String, Sendable, CaseIterable {
    /// `limits.inFlightPerAddress`.
    case address
    /// `limits.inFlightPerSession`.
    case session
    /// `routes.N.inFlight`.
    case route
}
