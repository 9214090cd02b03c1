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

    static func routes(_ document: StatusDocument, _ query: StatusQuery) -> StatusSection {
        let rows = query.selecting(document.routes).map { route in
            StatusRow(
                route.name, link: StatusSubjectLink.route(route.name, refresh: query.refresh),
                traffic(route.requests) + [
                    StatusCell(number: StatusFormatter.whole(route.unauthorizedRecent)),
                    StatusCell(number: StatusFormatter.whole(route.requests.total)),
                ])
        }
        let columns = [.words("Route")] + trafficColumns("5xx") + [.number("401"), .number("Since start")]
        let keys: [StatusQuery.RouteColumn] = [.name, .rate, .failed, .p50, .p95, .p99, .unauthorized, .total]
        let filters = StatusQuery.RouteFilter.allCases.map { filter in
            StatusLink(
                routeFilterText(filter), query.with { $0.routeFilter = filter }.link(to: "routes"),
                isCurrent: query.routeFilter == filter)
        }
        return StatusSection(
            "routes", "Routes", isWide: true,
            tables: [
                StatusTable(
                    "routes-caption",
                    "Rates, shares and percentiles of the last \(window(document)).\(omittedTrends(document))",
                    zip(columns, keys).map { column, key in
                        column.sorting(
                            query.with { $0.routeOrder = $0.routeOrder.selecting(key) }.link(to: "routes"),
                            isSelected: query.routeOrder.column == key, isReversed: query.routeOrder.isReversed)
                    }, rows, filters: document.routes.isEmpty ? [] : filters,
                    empty: document.routes.isEmpty ? "No requests yet." : "No route matches.")
            ])
    }

    private static func omittedTrends(_ document: StatusDocument) -> String {
        guard document.trendsNotKept > 0 else { return "" }
        let count = StatusFormatter.count(Int64(document.trendsNotKept), "route or target", "routes and targets")
        return " The trends of \(count) are not kept: at most \(StatusTrends.maxSubjects) have one."
    }

    private static func routeFilterText(_ filter: StatusQuery.RouteFilter) -> String {
        switch filter {
        case .all: "All"
        case .active: "With requests"
        case .failing: "With failures"
        }
    }

    static func targets(
        _ document: StatusDocument, _ query: StatusQuery
    ) -> StatusTable {
        let all = document.upstreams.flatMap { upstream in upstream.targets.map { (upstream.name, $0) } }
        let rows = query.selecting(all).map { upstream, target in
            StatusRow(
                target.address, note: target.peer,
                link: StatusSubjectLink.target(upstream: upstream, address: target.address, refresh: query.refresh),
                [StatusCell(upstream)] + condition(target))
        }
        let filters = StatusQuery.TargetFilter.allCases.map { filter in
            StatusLink(
                targetFilterText(filter), query.with { $0.targetFilter = filter }.link(to: "upstreams"),
                isCurrent: query.targetFilter == filter)
        }
        func sorting(_ column: StatusColumn, _ key: StatusQuery.TargetColumn) -> StatusColumn {
            let order = query.targetOrder?.selecting(key) ?? StatusQuery.Order(key)
            return column.sorting(
                query.with { $0.targetOrder = order }.link(to: "upstreams"),
                isSelected: query.targetOrder?.column == key, isReversed: query.targetOrder?.isReversed == true)
        }
        return StatusTable(
            "targets-caption", "Only targets that are up or warming get requests.",
            [
                sorting(.words("Target"), .name), sorting(.words("Upstream"), .upstream),
                sorting(.words("State"), .state), .words("Until"), sorting(.number("In flight"), .inflight),
                .words("Last failure"),
            ], rows, filters: all.isEmpty ? [] : filters,
            empty: all.isEmpty ? "No targets are configured." : "No target matches.")
    }

    private static func targetFilterText(_ filter: StatusQuery.TargetFilter) -> String {
        switch filter {
        case .all: "All"
        case .unused: "Not in use"
        case .failed: "With failures"
        }
    }

    /// State, end of the state, requests in flight and last failure.
    static func condition(_ target: StatusDocument.Upstream.Target) -> [StatusCell] {
        [
            state(target), remaining(target),
            StatusCell(number: target.inFlight.map { "\($0)" } ?? StatusFormatter.unknown),
            failure(target.lastFailure),
        ]
    }

    static func upstreams(_ document: StatusDocument, _ query: StatusQuery) -> StatusSection {
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
        return StatusSection(
            "upstreams", "Upstreams", isWide: true,
            tables: [
                StatusTable(
                    "upstreams-caption", "In flight and idle count connections, waiting counts requests.",
                    [.words("Upstream"), .words("Health")] + trafficColumns("Failed")
                        + [.number("In flight"), .number("Idle"), .number("Waiting"), .number("Retries")],
                    rows, empty: "No upstreams are configured."),
                targets(document, query),
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

    static func requests(_ count: UInt64) -> String {
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
