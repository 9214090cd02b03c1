extension StatusPage {
    static func signIns(_ document: StatusDocument) -> StatusSection {
        StatusSection(
            "sign-ins", "Sign-ins",
            tables: [
                outcomes(
                    "sign-ins-caption", "By outcome.", document.signIns,
                    failures: ["upstream_error", "store_error", "misconfigured"], empty: "No sign-ins yet.")
            ])
    }

    static func refreshes(_ document: StatusDocument) -> StatusSection {
        StatusSection(
            "refreshes", "Token refreshes",
            tables: [
                outcomes(
                    "refreshes-caption", "By outcome. Coalesced: another replica refreshed first.",
                    document.refreshes, failures: ["transient", "lease_timeout", "misconfigured", "rejected"],
                    empty: "No token refreshes yet.")
            ])
    }

    static func sessions(_ document: StatusDocument) -> StatusSection {
        let sessions = document.sessions
        let ended = sessions.ended.reduce(0) { $0 + $1.total }
        return StatusSection(
            "sessions", "Sessions",
            facts: [
                StatusField("Active", sessions.active.map(StatusFormatter.whole) ?? "Known only to the store’s server"),
                StatusField("Created since start", StatusFormatter.whole(sessions.createdTotal)),
                StatusField("Ended since start", StatusFormatter.whole(ended)),
            ],
            tables: [
                StatusTable(
                    "sessions-caption", "Ended, by reason.", [.words("Reason"), .number("Since start")],
                    sessions.ended.filter { $0.total > 0 }.map {
                        StatusRow(
                            StatusFormatter.words($0.reason), [StatusCell(number: StatusFormatter.whole($0.total))])
                    }, empty: "No ended sessions yet.")
            ])
    }

    /// Outcomes without occurrences are omitted.
    private static func outcomes(
        _ id: String, _ caption: String, _ outcomes: [StatusDocument.Outcome], failures: Set<String>, empty: String
    ) -> StatusTable {
        let rows = outcomes.filter { $0.total > 0 }.map { outcome in
            let isFailing = failures.contains(outcome.outcome) && outcome.recent > 0
            return StatusRow(
                StatusFormatter.words(outcome.outcome),
                [
                    StatusCell(number: StatusFormatter.whole(outcome.recent), level: isFailing ? .warning : .plain),
                    StatusCell(number: latency(outcome.latency, .p50)),
                    StatusCell(number: latency(outcome.latency, .p95)),
                    StatusCell(number: StatusFormatter.whole(outcome.total)),
                ])
        }
        return StatusTable(
            id, caption,
            [.words("Outcome"), .number("Recent"), .number("p50"), .number("p95"), .number("Since start")], rows,
            empty: empty)
    }

    static func store(_ document: StatusDocument) -> StatusSection {
        let store = document.store
        let up: StatusField =
            switch store.up {
            case true?: StatusField("State", "Up", level: .good)
            case false?: StatusField("State", "Down", note: "unreachable", level: .bad)
            case nil: StatusField("State", "Not tried yet", level: .muted)
            }
        let rows = store.operations.filter { $0.requests.total > 0 }.map { operation in
            StatusRow(
                StatusFormatter.words(operation.operation),
                [
                    StatusCell(number: StatusFormatter.rate(operation.requests.perSecond)),
                    StatusCell(number: share(operation.requests), level: level(operation.requests)),
                    StatusCell(number: latency(operation.requests, .p50)),
                    StatusCell(number: latency(operation.requests, .p95)),
                    StatusCell(number: StatusFormatter.whole(operation.requests.total)),
                ])
        }
        return StatusSection(
            "store", "Session store", facts: [StatusField("Kind", store.kind), up],
            tables: [
                StatusTable(
                    "store-caption", "Store operations.",
                    [
                        .words("Operation"), .number("Per second"), .number("Failed"), .number("p50"), .number("p95"),
                        .number("Since start"),
                    ], rows,
                    empty: store.kind == "memory"
                        ? "Operations of the memory store are not measured." : "No operations yet.")
            ])
    }
}
