/// The families of finished exchanges. ``LoopTelemetry`` asks for each handle once and caches it.
extension GatewayMetrics {
    func activeRequests(method: RequestMethod, scheme: URIScheme) -> GaugeHandle {
        registry.gauge(
            "http_server_active_requests", help: "Exchanges in progress.",
            labels: [("http_request_method", method.label.description), ("url_scheme", scheme.label.description)])
    }

    func serverRequestDuration(_ record: borrowing ExchangeRecord, route: String) -> HistogramHandle {
        registry.histogram(
            "http_server_request_duration_seconds",
            help: "Time from a request's first byte to its answer's last.",
            labels: [
                ("http_request_method", record.method.label.description),
                ("http_route", route),
                ("http_response_status_code", Self.statusLabel(record.status)),
                ("url_scheme", record.scheme.label.description),
                ("network_protocol_version", record.protocolVersion.label.description),
                ("error_type", Self.errorLabel(record.errorType, status: record.status)),
            ])
    }

    func clientRequestDuration(_ record: borrowing ExchangeRecord, target: UpstreamTarget) -> HistogramHandle {
        let status = record.upstreamStatus ?? record.status
        return registry.histogram(
            "http_client_request_duration_seconds",
            help: "Time that an exchange waited for its upstream.",
            labels: [
                ("http_request_method", record.method.label.description),
                ("http_response_status_code", Self.statusLabel(status)),
                ("server_address", target.address),
                ("server_port", target.port == 0 ? "" : String(target.port)),
                ("error_type", Self.errorLabel(record.errorType, status: status)),
                ("upstream", target.upstream),
            ])
    }

    func overheadDuration(route: String) -> HistogramHandle {
        registry.histogram(
            "cloakroom_overhead_seconds", help: "What the gateway added to a forwarded exchange: total minus upstream.",
            labels: [("route", route)])
    }

    func authDecisions(route: String, decision: ExchangeDecision) -> CounterHandle {
        registry.counter(
            "cloakroom_auth_decisions_total", help: "Decisions about a request's right to pass.",
            labels: [("route", route), ("decision", decision.label.description)])
    }

    /// Three digits, or nothing where no answer was sent.
    private static func statusLabel(_ status: UInt16) -> String {
        (100...999).contains(status) ? String(status) : ""
    }

    /// The gateway's own reason, else the status where that says failure, as the conventions have it.
    private static func errorLabel(_ error: ExchangeErrorType?, status: UInt16) -> String {
        if let error { return error.label.description }
        return (500...599).contains(status) ? String(status) : ""
    }
}
