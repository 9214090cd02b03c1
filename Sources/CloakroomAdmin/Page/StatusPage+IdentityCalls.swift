extension StatusPage {
    /// The last failed identity calls, with what the log line `identity_call_failed` has too.
    static func identityCalls(_ document: StatusDocument) -> StatusSection {
        StatusSection(
            "identity-calls", "Failed identity calls", isWide: true,
            tables: [
                StatusTable(
                    "identity-calls-caption",
                    "Calls that sign users in, refresh or revoke tokens; latest first, at most 20.",
                    [
                        .words("Call"), .words("Upstream"), .words("Status"), .words("Reason"), .words("Key"),
                        .number("Duration"), .words("Time"),
                    ], document.identityCallFailures.map(row), empty: "No failed calls.")
            ])
    }

    private static func row(_ failure: StatusDocument.IdentityCallFailure) -> StatusRow {
        StatusRow(
            StatusFormatter.words(failure.call), note: request(failure),
            [
                source(failure),
                failure.status.map { StatusCell("\($0)") } ?? StatusCell("None", note: "no response", level: .muted),
                StatusCell(prose: StatusFormatter.words(failure.reason), note: failure.hint), key(failure),
                StatusCell(number: StatusFormatter.milliseconds(Double(failure.durationMs))),
                StatusCell(
                    StatusFormatter.readable(failure.at),
                    note: "\(StatusFormatter.duration(seconds: failure.secondsAgo)) ago"),
            ])
    }

    /// `POST api.test:443/login`; without the server if none was tried.
    private static func request(_ failure: StatusDocument.IdentityCallFailure) -> String {
        "\(failure.method) \(failure.server)\(failure.path)"
    }

    private static func source(_ failure: StatusDocument.IdentityCallFailure) -> StatusCell {
        if let upstream = failure.upstream { return StatusCell(upstream) }
        return StatusCell(failure.identity ?? StatusFormatter.unknown, note: "provider")
    }

    /// The configuration key, with the member that it names and the members that were there.
    private static func key(_ failure: StatusDocument.IdentityCallFailure) -> StatusCell {
        guard let key = failure.key else { return StatusCell(StatusFormatter.unknown, level: .muted) }
        var parts: [String] = []
        if let expected = failure.expected { parts.append("expected \(expected)") }
        if let found = failure.found { parts.append("found \(found.joined(separator: ", "))") }
        return StatusCell(prose: key, note: parts.isEmpty ? nil : parts.joined(separator: "; "))
    }
}
