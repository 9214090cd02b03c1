import CloakroomCore

extension StatusPage {
    static func figures(_ document: StatusDocument) -> [StatusField] {
        let traffic = document.traffic
        let inFlight = document.upstreams.reduce(0) { $0 + $1.inFlight }
        let pending = document.upstreams.reduce(0) { $0 + $1.pending }
        return [
            StatusField("Requests per second", StatusFormatter.rate(traffic.perSecond), note: requests(traffic.recent)),
            StatusField(
                "Failed (5xx)", share(traffic), note: traffic.recent == 0 ? nil : "of all requests",
                level: level(traffic)),
            StatusField("95th percentile", latency(traffic, .p95), note: "of response times"),
            StatusField(
                "In flight upstream", StatusFormatter.whole(inFlight),
                note: pending == 0 ? "none waiting" : "\(StatusFormatter.whole(pending)) waiting",
                level: pending == 0 ? .plain : .warning),
            StatusField(
                "Sessions", document.sessions.active.map(StatusFormatter.whole) ?? StatusFormatter.unknown,
                note: document.sessions.active == nil ? "known to the store’s server" : "active now"),
        ]
    }

    static func routes(_ document: StatusDocument) -> StatusSection {
        let rows = document.routes.map { route in
            StatusRow(
                route.name,
                traffic(route.requests) + [
                    StatusCell(number: StatusFormatter.whole(route.unauthorizedRecent)),
                    StatusCell(number: StatusFormatter.whole(route.requests.total)),
                ])
        }
        return StatusSection(
            "routes", "Routes", isWide: true,
            tables: [
                StatusTable(
                    "routes-caption", "Busiest first. Rates, shares and percentiles of the last \(window(document)).",
                    [.words("Route")] + trafficColumns("5xx") + [.number("401"), .number("Since start")], rows,
                    empty: "No requests yet.")
            ])
    }

    static func upstreams(_ document: StatusDocument) -> StatusSection {
        let rows = document.upstreams.map { upstream in
            StatusRow(
                upstream.name,
                [health(upstream.health)] + traffic(upstream.requests) + [
                    StatusCell(number: StatusFormatter.whole(upstream.inFlight)),
                    StatusCell(number: StatusFormatter.whole(upstream.idle)),
                    StatusCell(
                        number: StatusFormatter.whole(upstream.pending), level: upstream.pending > 0 ? .warning : .plain
                    ),
                    StatusCell(number: StatusFormatter.whole(upstream.retriesTotal)),
                ])
        }
        let targets = document.upstreams.flatMap { upstream in
            upstream.targets.map { target in
                StatusRow(
                    target.address, note: target.peer,
                    [
                        StatusCell(upstream.name), state(target), remaining(target),
                        StatusCell(number: target.inFlight.map { "\($0)" } ?? StatusFormatter.unknown),
                        failure(target.lastFailure),
                    ])
            }
        }
        return StatusSection(
            "upstreams", "Upstreams", isWide: true,
            tables: [
                StatusTable(
                    "upstreams-caption", "In flight and idle count connections, waiting counts requests.",
                    [.words("Upstream"), .words("Health")] + trafficColumns("Failed")
                        + [.number("In flight"), .number("Idle"), .number("Waiting"), .number("Retries")],
                    rows, empty: "No upstreams are configured."),
                StatusTable(
                    "targets-caption", "Only targets that are up or warming get requests.",
                    [
                        .words("Target"), .words("Upstream"), .words("State"), .words("Until"), .number("In flight"),
                        .words("Last failure"),
                    ], targets,
                    empty: "No targets are configured."),
            ])
    }

    private static func trafficColumns(_ failures: String) -> [StatusColumn] {
        [.number("Per second"), .number(failures), .number("p50"), .number("p95"), .number("p99")]
    }

    private static func traffic(_ requests: StatusDocument.Requests) -> [StatusCell] {
        [
            StatusCell(number: StatusFormatter.rate(requests.perSecond)),
            StatusCell(number: share(requests), level: level(requests)),
        ] + Percentile.allCases.map { StatusCell(number: latency(requests, $0)) }
    }

    private static func health(_ health: StatusDocument.Upstream.Health) -> StatusCell {
        switch health {
        case .healthy: StatusCell("OK", level: .good)
        case .degraded: StatusCell("Degraded", level: .warning)
        case .down: StatusCell("Down", level: .bad)
        }
    }

    private static func state(_ target: StatusDocument.Upstream.Target) -> StatusCell {
        switch TargetCondition(rawValue: target.state) {
        case .up: StatusCell("Up", note: target.reason, level: .good)
        case .warming: StatusCell("Warming", note: target.reason, level: .good)
        case .backingOff:
            target.circuit == CircuitState.halfOpen.rawValue
                ? StatusCell("Next attempt due", note: target.reason, level: .warning)
                : StatusCell("Backing off", note: target.reason, level: .bad)
        case .ejected: StatusCell("Ejected", note: target.reason, level: .bad)
        case .down: StatusCell("Down", note: target.reason, level: .bad)
        case .draining: StatusCell("Draining", note: target.reason, level: .muted)
        case nil: StatusCell(target.state)
        }
    }

    private static func remaining(_ target: StatusDocument.Upstream.Target) -> StatusCell {
        guard let until = target.until, let seconds = target.secondsLeft else {
            return StatusCell(StatusFormatter.unknown, level: .muted)
        }
        return StatusCell(until, note: "in \(StatusFormatter.duration(seconds: seconds))")
    }

    private static func failure(_ failure: StatusDocument.Upstream.Failure?) -> StatusCell {
        guard let failure else { return StatusCell("None", level: .muted) }
        return StatusCell(prose: failure.reason, note: "\(StatusFormatter.duration(seconds: failure.secondsAgo)) ago")
    }

    private static func requests(_ count: UInt64) -> String {
        count == 0 ? "no requests" : StatusFormatter.count(Int64(clamping: count), "request")
    }
}

extension StatusPage {
    enum Percentile: String, CaseIterable {
        case p50 = "p50_ms"
        case p95 = "p95_ms"
        case p99 = "p99_ms"
    }

    static func window(_ document: StatusDocument) -> String {
        StatusFormatter.duration(seconds: Int64(document.windowSeconds.rounded()))
    }

    static func latency(_ requests: StatusDocument.Requests, _ percentile: Percentile) -> String {
        latency(requests.latency, percentile)
    }

    static func latency(_ latency: StatusDocument.Latency?, _ percentile: Percentile) -> String {
        guard let latency else { return StatusFormatter.unknown }
        let milliseconds =
            switch percentile {
            case .p50: latency.p50Ms
            case .p95: latency.p95Ms
            case .p99: latency.p99Ms
            }
        let isAboveHighestBucket = latency.atLeast?.contains(percentile.rawValue) == true
        return (isAboveHighestBucket ? ">\u{202F}" : "") + StatusFormatter.milliseconds(milliseconds)
    }

    static func share(_ requests: StatusDocument.Requests) -> String {
        requests.errorShare.map(StatusFormatter.share) ?? StatusFormatter.unknown
    }

    static func level(_ requests: StatusDocument.Requests) -> StatusLevel {
        switch requests.errorShare {
        case let share? where share >= StatusAlert.errorShare: .bad
        case let share? where share > 0: .warning
        default: .plain
        }
    }
}
