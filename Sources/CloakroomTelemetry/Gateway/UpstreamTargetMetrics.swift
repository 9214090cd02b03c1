public import CloakroomCore

/// The counters of one target of an upstream. Its peers share them, so that a change of DNS starts no new counters; the
/// gauges are those of ``UpstreamPeerMetrics``.
public struct UpstreamTargetMetrics: Sendable {
    private let scope: MetricScope
    /// Ejections.
    public let ejections: [EjectionReason: CounterHandle]
    /// Health checks.
    public let checks: [UpstreamCheckOutcome: CounterHandle]
    /// Connection attempts.
    public let connects: [UpstreamConnectOutcome: CounterHandle]

    init(registry: PrometheusRegistry, upstream: String, target: String) {
        scope = MetricScope(registry, [("upstream", upstream), ("target", target)])
        ejections = scope.counters(
            "cloakroom_upstream_ejections_total", help: "Ejections of a target, by reason.", by: "reason")
        checks = scope.counters(
            "cloakroom_upstream_checks_total", help: "Health checks of a target, by outcome.", by: "outcome")
        connects = scope.counters(
            "cloakroom_upstream_connects_total", help: "Connection attempts to a target, by outcome.", by: "outcome")
    }

    /// Removes the series of a target that is no longer configured and has no request in flight.
    public func unregister() { scope.close() }
}

/// The result of a health check: the label `outcome`.
public enum UpstreamCheckOutcome: String, Sendable, CaseIterable {
    /// The status or the gRPC state passed.
    case passed
    /// The response was another one.
    case failed
    /// There was no connection.
    case unreachable
    /// There was no response in time.
    case timeout
}

/// The result of a connection attempt: the label `outcome`.
public enum UpstreamConnectOutcome: String, Sendable, CaseIterable {
    /// The connection was established.
    case success
    /// The connection was rejected, or the target is unreachable.
    case failed
    /// The TLS handshake failed.
    case tls
    /// The connection was not established in time.
    case timeout
    /// The host name has no address.
    case dns
}

/// The metrics of the resolution of one host name.
public struct UpstreamDNSMetrics: Sendable {
    private let scope: MetricScope
    private let age: FloatingPointGaugeHandle

    init(registry: PrometheusRegistry, upstream: String, target: String, interval: Duration) {
        scope = MetricScope(registry, [("upstream", upstream), ("target", target)])
        age = scope.floatingPointGauge(
            "cloakroom_upstream_dns_age_seconds",
            help: "Time since the host name of a target was last resolved successfully.")
        scope.floatingPointGauge(
            "cloakroom_upstream_dns_interval_seconds", help: "Configured time between two DNS queries for a target."
        ).set(interval / .seconds(1))
    }

    /// Sets the time since the last successful query.
    public func setAge(nanoseconds: UInt64) { age.set(Double(nanoseconds) / 1e9) }

    /// Removes the series of a target that is no longer configured.
    public func unregister() { scope.close() }
}

/// The metrics of HTTP/2 connections to one upstream.
public struct UpstreamHTTP2Metrics: Sendable {
    private let streams: GaugeHandle
    private let goAways: CounterHandle
    /// By error code.
    private let resets: [[Side: CounterHandle]]

    /// The side that reset a stream: the label `by`.
    public enum Side: String, Sendable, CaseIterable {
        case gateway
        case target
    }

    /// - Parameter scope: The one of the upstream, which removes the series.
    init(_ scope: MetricScope) {
        streams = scope.gauge("cloakroom_upstream_http2_streams", help: "Open HTTP/2 streams to an upstream.")
        goAways = scope.counter(
            "cloakroom_upstream_http2_goaways_total", help: "GOAWAY frames received from an upstream.")
        resets = Self.codes.map { code in
            scope.counters(
                "cloakroom_upstream_http2_resets_total", help: "Reset HTTP/2 streams to an upstream, by code.",
                by: "by", [("code", code)])
        }
    }

    /// The names of the error codes of RFC 9113 §7, by their number, and a name for all others.
    private static let codes = [
        "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
        "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED", "_OTHER",
    ]

    /// Adds to the number of open streams; loops call it at their tick with the difference.
    public func addStreams(_ difference: Int) { streams.add(Int64(difference)) }

    /// Counts a received GOAWAY.
    public func countGoAway() { goAways.increment() }

    /// Counts a reset stream.
    /// - Parameter code: The error code of RFC 9113 §7; unknown ones are counted as `_OTHER`.
    public func countReset(code: UInt32, by side: Side) {
        resets[min(Int(code), resets.count - 1)][side]?.increment()
    }
}
