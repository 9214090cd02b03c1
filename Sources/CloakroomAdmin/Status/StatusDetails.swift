import CloakroomCore
import CloakroomTelemetry

/// The values of one route or target of an upstream, for its page.
struct StatusDetails: Sendable {
    var requests: StatusDocument.Requests
    var trend: StatusTrend
    /// Whether the trend is not kept, because there are too many routes and targets.
    var isTrendOmitted = false
    /// The latest first.
    var failures: [StatusFailure]
    /// Responses by status of a route; empty for a target.
    var responses: [StatusDocument.Count] = []
    /// Connection attempts, health checks and ejections of a target since the start; empty for a route.
    var events: [Event] = []

    struct Event: Sendable {
        /// `connect`, `check` or `ejection`.
        var kind: String
        var outcome: String
        var total: UInt64
    }
}

extension StatusReporter {
    /// The details of a route.
    /// - Returns: `nil` if there were no requests to a route of this name.
    func details(ofRoute name: String, instant: ContinuousClock.Instant) -> StatusDetails? {
        let reading = registry.recordedReading()
        let sample = StatusSample(reading)
        guard let total = sample.routes[name] else { return nil }
        let window = history.window(to: sample, at: instant)
        let subject = StatusSubject.route(name)
        var responses: [String: UInt64] = [:]
        for one in reading["http_server_request_duration_seconds"] where one.labels["route"] == name {
            guard case .histogram(let histogram) = one.value else { continue }
            responses[one.labels["http_response_status_code"] ?? "", default: 0] &+= histogram.count
        }
        return StatusDetails(
            requests: .init(total, window.change.routes[name] ?? RequestStats(), window),
            trend: trends.trend(of: subject), isTrendOmitted: trends.isOmitted(subject),
            failures: trends.failures(of: subject), responses: Self.counts(responses, [:]))
    }

    /// The details of a configured target.
    func details(upstream: String, address: String, instant: ContinuousClock.Instant) -> StatusDetails {
        let reading = registry.recordedReading()
        let sample = StatusSample(reading)
        let window = history.window(to: sample, at: instant)
        let key = StatusTargetKey(upstream: upstream, address: address)
        let subject = StatusSubject.target(key)
        func events(_ kind: String, _ family: String, by label: String) -> [StatusDetails.Event] {
            reading[family].filter { $0.labels["upstream"] == upstream && $0.labels["target"] == address }
                .counts(by: label).filter { $0.value > 0 }
                .map { StatusDetails.Event(kind: kind, outcome: $0.key, total: $0.value) }
                .sorted { ($1.total, $0.outcome) < ($0.total, $1.outcome) }
        }
        return StatusDetails(
            requests: .init(
                sample.targets[key] ?? RequestStats(), window.change.targets[key] ?? RequestStats(), window),
            trend: trends.trend(of: subject), isTrendOmitted: trends.isOmitted(subject),
            failures: trends.failures(of: subject),
            events: events("connect", "cloakroom_upstream_connects_total", by: "outcome")
                + events("check", "cloakroom_upstream_checks_total", by: "outcome")
                + events("ejection", "cloakroom_upstream_ejections_total", by: "reason"))
    }
}

extension StatusTrends {
    /// The recent failures of all routes, the latest first.
    func recentRouteFailures(limit: Int) -> [StatusDocument.RouteFailure] {
        routeFailures().sorted { ($1.1.last, $1.1.count, $0.0) < ($0.1.last, $0.1.count, $1.0) }.prefix(limit).map {
            .init(
                route: $0.0, status: $0.1.kind.status.isEmpty ? nil : $0.1.kind.status, reason: $0.1.kind.word,
                count: $0.1.count, firstAt: StatusFormatter.time($0.1.first), lastAt: StatusFormatter.time($0.1.last))
        }
    }
}

extension StatusFailureKind {
    /// The reason as a fixed word of the label `error_type`: `upstream_timeout`, or `status_5xx` for a response of the
    /// upstream with such a status.
    var word: String { reason.isEmpty || reason.allSatisfy(\.isNumber) ? "status_5xx" : reason }

    /// The first thing to check.
    var hint: String {
        switch word {
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
