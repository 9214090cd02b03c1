import CloakroomCore
import CloakroomTelemetry

extension StatusReporter {
    /// The details of a route.
    /// - Returns: `nil` if there were no requests to a route of this name.
    func details(ofRoute name: String, instant: ContinuousClock.Instant) -> StatusDocument.Details? {
        let reading = registry.recordedReading()
        let sample = StatusSample(reading)
        guard let total = sample.routes[name] else { return nil }
        let window = history.window(to: sample, at: instant)
        var responses: [String: UInt64] = [:]
        for one in reading["http_server_request_duration_seconds"] where one.labels["route"] == name {
            guard case .histogram(let histogram) = one.value else { continue }
            responses[one.labels["http_response_status_code"] ?? "", default: 0] &+= histogram.count
        }
        return StatusDocument.Details(
            .route(name), .init(total, window.change.routes[name] ?? RequestStats(), window), trends,
            responses: responses.map { .init(status: $0.key.isEmpty ? nil : $0.key, total: $0.value) }
                .sorted { ($1.total, $0.status ?? "") < ($0.total, $1.status ?? "") })
    }

    /// The details of a target.
    /// - Returns: `nil` unless the target is configured.
    func details(
        upstream: String, address: String, of upstreams: [StatusDocument.Upstream], instant: ContinuousClock.Instant
    ) -> StatusDocument.Details? {
        guard upstreams.contains(where: { $0.name == upstream && $0.targets.contains { $0.address == address } })
        else { return nil }
        let reading = registry.recordedReading()
        let sample = StatusSample(reading)
        let window = history.window(to: sample, at: instant)
        let key = StatusTargetKey(upstream: upstream, address: address)
        func events(_ kind: String, _ family: String, by label: String) -> [StatusDocument.Details.Event] {
            reading[family].filter { $0.labels["upstream"] == upstream && $0.labels["target"] == address }
                .counts(by: label).filter { $0.value > 0 }
                .map { .init(kind: kind, outcome: $0.key, total: $0.value) }
                .sorted { ($1.total, $0.outcome) < ($0.total, $1.outcome) }
        }
        return StatusDocument.Details(
            .target(key),
            .init(sample.targets[key] ?? RequestStats(), window.change.targets[key] ?? RequestStats(), window), trends,
            events: events("connect", "cloakroom_upstream_connects_total", by: "outcome")
                + events("check", "cloakroom_upstream_checks_total", by: "outcome")
                + events("ejection", "cloakroom_upstream_ejections_total", by: "reason"))
    }
}

extension StatusDocument.Details {
    fileprivate init(
        _ subject: StatusSubject, _ requests: StatusDocument.Requests, _ trends: StatusTrends,
        responses: [Response] = [], events: [Event] = []
    ) {
        self.init(
            requests: requests, trend: StatusTrendDocument(subject, trends.trend(of: subject)),
            trendKept: !trends.isOmitted(subject),
            failures: trends.failures(of: subject).map { .init($0, isOfAccounts: subject == .accounts) },
            responses: responses, events: events)
    }
}

extension StatusTrends {
    /// The recent failures of all routes, the latest first.
    func recentFailures() -> [StatusDocument.RequestFailure] {
        routeFailures().sorted { ($1.1.last, $1.1.count, $0.0) < ($0.1.last, $0.1.count, $1.0) }
            .prefix(Self.maxFailures).map {
                .init($0.1, route: $0.0, isOfAccounts: StatusSubject.route($0.0) == .accounts)
            }
    }
}

extension StatusDocument.RequestFailure {
    fileprivate init(_ failure: StatusFailure, route: String? = nil, isOfAccounts: Bool) {
        self.init(
            route: route, status: failure.kind.status.isEmpty ? nil : failure.kind.status, reason: failure.kind.word,
            count: failure.count, firstAt: failure.first.iso8601, lastAt: failure.last.iso8601,
            hint: failure.kind.hint(isOfAccounts: isOfAccounts))
    }
}

extension StatusFailureKind {
    /// The reason as a fixed word of the label `error_type`: `upstream_timeout`, or `status_5xx` for a response of the
    /// upstream with such a status.
    var word: String { reason.isEmpty || reason.allSatisfy(\.isNumber) ? "status_5xx" : reason }

    /// The first thing to check.
    /// - Parameter isOfAccounts: Whether a request to an account endpoint failed, and so an identity call.
    func hint(isOfAccounts: Bool) -> String {
        switch word {
        case let word where isOfAccounts && word.hasPrefix("upstream_"):
            "An identity call failed: see the list of failed identity calls."
        case "status_5xx": "The log of the upstream has the cause."
        case "upstream_unreachable": "No connection: check that the target runs, its address and the firewall."
        case "upstream_timeout": "No response in time: compare p99 with the timeouts of the route."
        case "upstream_reset": "The target closed the connection: check its log and its keep-alive timeout."
        case "upstream_invalid_response": "The response was not valid HTTP: check the log of the gateway."
        case "overloaded": "Too many requests waited: check the limits and the target's capacity."
        case "store_unavailable": "Check the session store."
        case "draining": "The gateway was shutting down."
        case "internal_error": "Check the log of the gateway."
        default: "Check the access log."
        }
    }
}
