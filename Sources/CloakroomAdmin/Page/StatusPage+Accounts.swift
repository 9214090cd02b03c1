import CloakroomCore

extension StatusPage {
    static func identities(_ document: StatusDocument) -> StatusSection {
        let rows = document.identities.map { identity in
            StatusRow(
                identity.name, note: identity.issuer,
                [
                    state(identity), StatusCell(number: StatusFormatter.whole(UInt64(clamping: identity.keys))),
                    StatusCell(
                        identity.keysAgeSeconds.map { "\(StatusFormatter.duration(seconds: $0)) ago" } ?? "Never",
                        note: identity.skippedKeys == 0 ? nil : "\(identity.skippedKeys) unusable",
                        level: identity.keysAgeSeconds == nil ? .muted : .plain),
                    StatusCell(number: StatusFormatter.whole(identity.loginsRecent)),
                    StatusCell(
                        number: StatusFormatter.whole(identity.loginsFailedRecent),
                        level: identity.loginsFailedRecent > 0 ? .warning : .plain),
                    StatusCell(number: StatusFormatter.whole(identity.loginsTotal)),
                    StatusCell(number: StatusFormatter.whole(identity.logoutsTotal)), failure(identity.lastFailure),
                ])
        }
        return StatusSection(
            "identities", "Identity providers", isWide: true,
            problems: document.identities.flatMap { identity in
                (identity.findings ?? []).map { "\(identity.name): \($0)" }
            },
            tables: [
                StatusTable(
                    "identities-caption",
                    "Logins of the last \(window(document)) and since start; logouts that the provider reported.",
                    [
                        .words("Provider"), .words("State"), .number("Keys"), .words("Fetched"), .number("Logins"),
                        .number("Failed"), .number("Since start"), .number("Logouts"), .words("Last failure"),
                    ], rows, empty: "No providers are configured.")
            ])
    }

    private static func state(_ identity: StatusDocument.Identity) -> StatusCell {
        switch IdentityStatus.Condition(rawValue: identity.state) {
        case .up: StatusCell("Up", level: .good)
        case .stale: StatusCell("Unreachable", note: "earlier keys are used", level: .warning)
        case .down: StatusCell("Down", level: .bad)
        case nil: StatusCell(identity.state)
        }
    }

    private static func failure(_ failure: StatusDocument.Identity.Failure?) -> StatusCell {
        guard let failure else { return StatusCell("None", level: .muted) }
        return StatusCell(
            prose: "\(failure.reason); \(failure.remedy)",
            note: "\(StatusFormatter.duration(seconds: failure.secondsAgo)) ago")
    }

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
        let errors = store.errors.map { failure in
            StatusRow(
                StatusFormatter.words(failure.reason),
                [
                    StatusCell(prose: failure.hint),
                    StatusCell(
                        number: StatusFormatter.whole(failure.recent), level: failure.recent > 0 ? .bad : .plain),
                    StatusCell(number: StatusFormatter.whole(failure.total)),
                ])
        }
        // Without failures the table would only take space.
        let failures = StatusTable(
            "store-errors-caption", "Failures of the store by reason.",
            [.words("Reason"), .words("What to do"), .number("Recent"), .number("Since start")], errors,
            empty: "No failures.")
        return StatusSection(
            "store", "Session store", facts: [StatusField("Kind", store.kind), up],
            tables: (errors.isEmpty ? [] : [failures]) + [
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
