/// The metric families of exchanges. ``LoopTelemetry`` requests each handle once and caches it.
extension GatewayMetrics {
    func activeRequests(method: RequestMethod, scheme: URIScheme) -> GaugeHandle {
        registry.gauge(
            "http_server_active_requests", help: "Requests in progress.",
            labels: [("http_request_method", method.label.description), ("url_scheme", scheme.label.description)])
    }

    func serverRequestDuration(_ record: borrowing ExchangeRecord, route: String) -> HistogramHandle {
        registry.histogram(
            "http_server_request_duration_seconds",
            help: "Time from the first byte of a request to the last byte of its response.",
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
            help: "Time spent waiting for the upstream.",
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
            "cloakroom_overhead_seconds",
            help: "Time added by the gateway to forwarded requests: total minus upstream.",
            labels: [("route", route)])
    }

    func authDecisions(route: String, decision: ExchangeDecision) -> CounterHandle {
        registry.counter(
            "cloakroom_auth_decisions_total", help: "Authorization decisions, by route and decision.",
            labels: [("route", route), ("decision", decision.label.description)])
    }

    /// Three digits; empty if no response was sent.
    private static func statusLabel(_ status: UInt16) -> String {
        (100...999).contains(status) ? String(status) : ""
    }

    /// The error type of the gateway, otherwise the status if it is 500 to 599, as in the OpenTelemetry conventions.
    private static func errorLabel(_ error: ExchangeErrorType?, status: UInt16) -> String {
        if let error { return error.label.description }
        return (500...599).contains(status) ? String(status) : ""
    }
}
