import CloakroomCore

/// Counters of clients that were too slow or had too many requests, and the limit of log lines about them.
///
/// Created once per process; all methods can be called on any thread.
public final class ClientLimitMetrics: Sendable {
    private let slow: [SlowClientDirection: [SlowClientCause: CounterHandle]]
    private let caps: [ClientCap: CounterHandle]
    /// The limits of log lines about each kind of slow client.
    private let lines: [SlowClientDirection: [SlowClientCause: LogRateLimiter]]

    init(registry: PrometheusRegistry) {
        let scope = MetricScope(registry)
        slow = scope.counters(
            "cloakroom_slow_clients_total",
            help: "Requests ended because the client was too slow, by direction and cause.", by: "direction", "cause")
        lines = slow.mapValues { $0.mapValues { _ in LogRateLimiter(interval: .seconds(60)) } }
        caps = scope.counters(
            "cloakroom_client_cap_total", help: "Requests rejected because too many were in flight, by limit.",
            by: "cap")
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
