public import CloakroomCore

/// The counters of one target of an upstream. Its peers share them, so that a change of DNS starts no new counters; the
/// gauges are those of ``UpstreamPeerMetrics``.
public struct UpstreamTargetMetrics: Sendable {
    private let registry: PrometheusRegistry
    private let ejections: [EjectionReason: CounterHandle]
    private let checks: [UpstreamCheckOutcome: CounterHandle]
    private let connects: [UpstreamConnectOutcome: CounterHandle]

    init(registry: PrometheusRegistry, upstream: String, target: String) {
        self.registry = registry
        let labels = [("upstream", upstream), ("target", target)]
        ejections = GatewayMetrics.handles("reason") {
            registry.counter(
                "cloakroom_upstream_ejections_total", help: "Ejections of a target, by reason.", labels: labels + $0)
        }
        checks = GatewayMetrics.handles("outcome") {
            registry.counter(
                "cloakroom_upstream_checks_total", help: "Health checks of a target, by outcome.", labels: labels + $0)
        }
        connects = GatewayMetrics.handles("outcome") {
            registry.counter(
                "cloakroom_upstream_connects_total", help: "Connection attempts to a target, by outcome.",
                labels: labels + $0)
        }
    }

    /// Counts an ejection.
    public func countEjection(_ reason: EjectionReason) { ejections[reason]?.increment() }

    /// Counts a health check.
    public func countCheck(_ outcome: UpstreamCheckOutcome) { checks[outcome]?.increment() }

    /// Counts a connection attempt.
    public func countConnect(_ outcome: UpstreamConnectOutcome) { connects[outcome]?.increment() }

    /// Removes the series of a target that is no longer configured and has no request in flight.
    public func unregister() {
        for handle in ejections.values { registry.remove(handle) }
        for handle in checks.values { registry.remove(handle) }
        for handle in connects.values { registry.remove(handle) }
    }
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
    private let registry: PrometheusRegistry
    private let age: FloatingPointGaugeHandle
    private let interval: FloatingPointGaugeHandle

    init(registry: PrometheusRegistry, upstream: String, target: String, interval: Duration) {
        self.registry = registry
        let labels = [("upstream", upstream), ("target", target)]
        age = registry.floatingPointGauge(
            "cloakroom_upstream_dns_age_seconds",
            help: "Time since the host name of a target was last resolved successfully.", labels: labels)
        self.interval = registry.floatingPointGauge(
            "cloakroom_upstream_dns_interval_seconds",
            help: "Configured time between two DNS queries for a target.", labels: labels)
        self.interval.set(interval / .seconds(1))
    }

    /// Sets the time since the last successful query.
    public func setAge(nanoseconds: UInt64) { age.set(Double(nanoseconds) / 1e9) }

    /// Removes the series of a target that is no longer configured.
    public func unregister() {
        registry.remove(age)
        registry.remove(interval)
    }
}

/// The metrics of HTTP/2 connections to one upstream.
public struct UpstreamHTTP2Metrics: Sendable {
    private let registry: PrometheusRegistry
    private let streams: GaugeHandle
    private let goAways: CounterHandle
    private let resets: [ResetKey: CounterHandle]

    /// The side that reset a stream: the label `by`.
    public enum Side: String, Sendable, CaseIterable {
        /// The gateway.
        case gateway
        /// The target.
        case target
    }

    private struct ResetKey: Hashable {
        let code: Int
        let side: Side
    }

    init(registry: PrometheusRegistry, upstream: String) {
        self.registry = registry
        let labels = [("upstream", upstream)]
        streams = registry.gauge(
            "cloakroom_upstream_http2_streams", help: "Open HTTP/2 streams to an upstream.", labels: labels)
        goAways = registry.counter(
            "cloakroom_upstream_http2_goaways_total", help: "GOAWAY frames received from an upstream.", labels: labels)
        var resets: [ResetKey: CounterHandle] = [:]
        for (code, name) in Self.codes.enumerated() {
            for side in Side.allCases {
                resets[ResetKey(code: code, side: side)] = registry.counter(
                    "cloakroom_upstream_http2_resets_total", help: "Reset HTTP/2 streams to an upstream, by code.",
                    labels: labels + [("code", name), ("by", side.rawValue)])
            }
        }
        self.resets = resets
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

    /// Removes the series of an upstream that is no longer configured.
    public func unregister() {
        registry.remove(streams)
        registry.remove(goAways)
        for handle in resets.values { registry.remove(handle) }
    }

    /// Counts a reset stream.
    /// - Parameter code: The error code of RFC 9113 §7; unknown ones are counted as `_OTHER`.
    public func countReset(code: UInt32, by side: Side) {
        let known = min(Int(code), Self.codes.count - 1)
        resets[ResetKey(code: known, side: side)]?.increment()
    }
}
