import CloakroomCore

extension StatusPage {
    /// The page of one route.
    init(route name: String, _ details: StatusDetails, in document: StatusDocument, refresh: Int?) {
        let unauthorized = document.routes.first { $0.name == name }
        self.init(
            document, Self.heading("Route \(name)", details.requests, document), alerts: [],
            figures: Self.figures(details.requests) + [
                StatusField(
                    "401", StatusFormatter.whole(unauthorized?.unauthorizedRecent ?? 0), note: "session needed")
            ],
            charts: StatusTrendChart.all(details.trend), trendNote: Self.trendNote(details),
            sections: [
                Self.failures(details),
                StatusSection(
                    "responses", "Responses",
                    tables: [
                        StatusTable(
                            "responses-caption", "By status, since start.", [.words("Status"), .number("Responses")],
                            details.responses.map {
                                StatusRow(
                                    $0.kind.isEmpty ? "None" : $0.kind,
                                    [StatusCell(number: StatusFormatter.whole($0.total))])
                            }, empty: "No responses yet.")
                    ]),
            ], refresh: refresh, home: Self.home(refresh)
        ) { StatusSubjectLink.route(name, refresh: $0) }
    }

    /// The page of one target of an upstream.
    /// - Parameter targets: The target, or its resolved addresses.
    init(
        upstream: String, _ targets: [StatusDocument.Upstream.Target], address: String, _ details: StatusDetails,
        in document: StatusDocument, refresh: Int?
    ) {
        self.init(
            document, Self.heading("Target \(address)", details.requests, document, note: "Upstream \(upstream)."),
            alerts: [], figures: Self.figures(details.requests), charts: StatusTrendChart.all(details.trend),
            trendNote: Self.trendNote(details),
            sections: [
                Self.failures(details),
                StatusSection(
                    "addresses", "State", isWide: true,
                    tables: [
                        StatusTable(
                            "addresses-caption", "By address. Only addresses that are up or warming get requests.",
                            [
                                .words("Address"), .words("State"), .words("Until"), .number("In flight"),
                                .words("Last failure"),
                            ], targets.map { StatusRow($0.peer ?? $0.address, Self.condition($0)) },
                            empty: "The name of the target is not resolved.")
                    ]),
                StatusSection(
                    "events", "Connections and checks",
                    tables: [
                        StatusTable(
                            "events-caption", "Since start.", [.words("Event"), .words("Outcome"), .number("Count")],
                            details.events.map {
                                StatusRow(
                                    Self.eventName($0.kind),
                                    [
                                        StatusCell(StatusFormatter.words($0.outcome)),
                                        StatusCell(number: StatusFormatter.whole($0.total)),
                                    ])
                            }, empty: "No connection attempts yet.")
                    ]),
            ], refresh: refresh, home: Self.home(refresh)
        ) { StatusSubjectLink.target(upstream: upstream, address: address, refresh: $0) }
    }

    /// The failures of all routes.
    static func recentFailures(_ document: StatusDocument, _ query: StatusQuery) -> StatusSection {
        StatusSection(
            "failures", "Recent failures", isWide: true,
            tables: [
                StatusTable(
                    "failures-caption", "Latest first, at most 20. A failure is listed within 10 s.",
                    [.words("Route"), .words("Reason"), .words("Status"), .words("Last seen"), .number("Requests")],
                    document.recentFailures.map { failure in
                        StatusRow(
                            failure.route, link: StatusSubjectLink.route(failure.route, refresh: query.refresh),
                            [
                                StatusCell(StatusFormatter.words(failure.reason)), StatusCell(failure.status ?? "None"),
                                StatusCell(StatusFormatter.readable(failure.lastAt)),
                                StatusCell(number: StatusFormatter.whole(failure.count)),
                            ])
                    }, empty: "No failures.")
            ])
    }

    private static func failures(_ details: StatusDetails) -> StatusSection {
        StatusSection(
            "failures", "Recent failures", isWide: true,
            tables: [
                StatusTable(
                    "failures-caption", "Latest first, at most 20. A failure is listed within 10 s.",
                    [
                        .words("Reason"), .words("Status"), .number("Requests"), .words("First seen"),
                        .words("Last seen"), .words("Check first"),
                    ],
                    details.failures.map { failure in
                        StatusRow(
                            StatusFormatter.words(failure.kind.word),
                            [
                                StatusCell(failure.kind.status.isEmpty ? "None" : failure.kind.status),
                                StatusCell(number: StatusFormatter.whole(failure.count)),
                                StatusCell(StatusFormatter.readable(StatusFormatter.time(failure.first))),
                                StatusCell(StatusFormatter.readable(StatusFormatter.time(failure.last))),
                                StatusCell(prose: failure.kind.hint),
                            ])
                    }, empty: "No failures.")
            ])
    }

    private static func figures(_ requests: StatusDocument.Requests) -> [StatusField] {
        [
            StatusField(
                "Requests per second", StatusFormatter.rate(requests.perSecond), note: Self.requests(requests.recent)),
            StatusField("Failed", share(requests), level: level(requests)),
            StatusField("50th percentile", latency(requests, .p50), note: "of response times"),
            StatusField("99th percentile", latency(requests, .p99), note: "of response times"),
        ]
    }

    private static func heading(
        _ name: String, _ requests: StatusDocument.Requests, _ document: StatusDocument, note: String? = nil
    ) -> State {
        let level = level(requests)
        let condition = level == .plain ? "OK: no failures" : "\(share(requests)) of the requests failed"
        let sentence = "\(condition) in the last \(window(document))."
        return State(
            word: name, meaning: note.map { "\($0) \(sentence)" } ?? sentence, level: level == .plain ? .good : level)
    }

    private static func trendNote(_ details: StatusDetails) -> String {
        guard details.isTrendOmitted else { return "" }
        return "Not kept: only \(StatusTrends.maxSubjects) routes and targets have trends."
            + " Failures and figures are complete."
    }

    private static func home(_ refresh: Int?) -> String { StatusQuery().with { $0.refresh = refresh }.link() }

    private static func eventName(_ kind: String) -> String {
        switch kind {
        case "connect": "Connection attempt"
        case "check": "Health check"
        default: "Ejection"
        }
    }
}
