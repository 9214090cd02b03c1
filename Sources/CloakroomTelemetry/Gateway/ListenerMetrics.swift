public import CloakroomCore

/// The metrics of client connections, their acceptance and TLS handshakes, and of the event loops that serve them.
///
/// Created once per process; all methods can be called on any thread.
public final class ListenerMetrics: Sendable {
    /// Open connections, set before each scrape.
    public let open: GaugeHandle
    private let byState: [ClientConnectionState: GaugeHandle]
    /// The number of connections at which accepting is paused.
    public let limit: GaugeHandle
    private let pausedListeners: GaugeHandle
    private let pauses: [AcceptPauseReason: CounterHandle]
    /// Completed TLS handshakes.
    public let handshakes: [TLSVersion: CounterHandle]
    /// TLS handshakes that were not completed.
    public let failedHandshakes: [TLSHandshakeFailure: CounterHandle]
    /// How late the timers of event loops were.
    public let lag: HistogramHandle

    init(registry: PrometheusRegistry) {
        let scope = MetricScope(registry)
        open = scope.gauge("cloakroom_connections", help: "Open connections of clients.")
        byState = scope.gauges("cloakroom_connections_by_state", help: "Client connections, by state.", by: "state")
        limit = scope.gauge("cloakroom_connections_limit", help: "Client connections at which accepting is paused.")
        pausedListeners = scope.gauge(
            "cloakroom_accept_paused_listeners", help: "Listeners that do not accept connections now.")
        pauses = scope.counters("cloakroom_accept_pauses_total", help: "Pauses of accepting, by reason.", by: "reason")
        let (name, help) = (
            "cloakroom_tls_handshakes_total", "TLS handshakes with clients, by outcome and version."
        )
        handshakes = scope.counters(name, help: help, by: "version", [("outcome", "success")])
        failedHandshakes = scope.counters(name, help: help, by: "outcome", [("version", "")])
        lag = scope.histogram(
            "cloakroom_event_loop_lag_seconds",
            help: "Delay of the timer of an event loop: how long an event waits for its loop.")
    }

    /// Adds to the number of connections in one state; event loops call it once a second with the difference.
    public func add(_ difference: Int, _ state: ClientConnectionState) { byState[state]?.add(Int64(difference)) }

    /// A listener pauses accepting.
    public func acceptPaused(_ reason: AcceptPauseReason) {
        pauses[reason]?.increment()
        pausedListeners.add(1)
    }

    /// A listener accepts again, or is closed.
    public func acceptResumed() { pausedListeners.add(-1) }
}

/// What a client connection does: the label `state`.
public enum ClientConnectionState: String, Sendable, CaseIterable {
    /// It has no protocol yet: TLS handshake, PROXY header, or detection of the HTTP version.
    case new
    /// A request or a tunnel is in progress, or a request has arrived in part.
    case active
    /// It waits for the next request.
    case idle
}

/// Why a listener does not accept connections: the label `reason`.
public enum AcceptPauseReason: String, Sendable, CaseIterable {
    /// `limits.connections` is reached.
    case limit
    /// The system has no descriptors or memory for a connection.
    case resources
}

/// Why a TLS handshake was not completed: the label `outcome`.
public enum TLSHandshakeFailure: String, Sendable, CaseIterable {
    /// An error of the protocol: no common version or cipher, or a certificate that either side rejects.
    case failed
    /// The client closed the connection.
    case aborted
    /// The handshake took longer than `timeouts.header`.
    case timeout
    /// The certificate of the client has expired since the TLS session was created.
    case expired
}
