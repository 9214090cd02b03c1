extension StatusPage {
    static func certificates(_ document: StatusDocument) -> StatusSection {
        let rows = document.certificates.map { certificate in
            StatusRow(
                certificate.names.isEmpty ? "No names" : certificate.names.joined(separator: ", "),
                note: certificate.file,
                [
                    daysLeft(certificate.daysLeft, until: certificate.notAfter),
                    StatusCell(whole: certificate.listener),
                ])
        }
        return StatusSection(
            "certificates", "Certificates",
            tables: [
                StatusTable(
                    "certificates-caption", "Earliest expiry first.",
                    [.words("Names"), .words("Expires"), .words("Listener")], rows,
                    empty: "No listener has a certificate: all connections are unencrypted.")
            ])
    }

    private static func daysLeft(_ days: Int64, until: String) -> StatusCell {
        let until = StatusFormatter.readable(until)
        return switch days {
        case ..<0: StatusCell("Expired", note: until, level: .bad)
        case 0: StatusCell("Today", note: until, level: .bad)
        case ..<StatusAlert.certificateDays:
            StatusCell("In \(StatusFormatter.count(days, "day"))", note: until, level: .warning)
        default: StatusCell("In \(StatusFormatter.count(days, "day"))", note: until)
        }
    }

    static func config(_ document: StatusDocument) -> StatusSection {
        let config = document.config
        var facts = [
            StatusField("File", config.file ?? "None"),
            StatusField("Hash", config.hash),
            StatusField("In effect since", StatusFormatter.readable(config.loadedAt)),
        ]
        if let reload = config.lastReload {
            facts.append(
                StatusField(
                    "Last reload", reload.succeeded ? "Succeeded" : "Rejected",
                    note: StatusFormatter.readable(reload.at),
                    level: reload.succeeded ? .good : .bad))
        } else {
            facts.append(StatusField("Last reload", "None since start", level: .muted))
        }
        return StatusSection(
            "configuration", "Configuration", facts: facts, problems: config.lastReload?.problems ?? [])
    }

    static func readiness(_ document: StatusDocument) -> StatusSection {
        let rows = document.readiness.map { check in
            StatusRow(
                check.name,
                [
                    check.isReady ? StatusCell("OK", level: .good) : StatusCell("Failed", level: .bad),
                    StatusCell(prose: check.detail ?? ""),
                ])
        }
        return StatusSection(
            "readiness", "Readiness",
            tables: [
                StatusTable(
                    "readiness-caption", "Readiness checks.",
                    [.words("Check"), .words("Result"), .words("Reason")], rows, empty: "No checks are configured.")
            ])
    }

    static func telemetry(_ document: StatusDocument) -> StatusSection {
        StatusSection(
            "telemetry", "Drops and rejections",
            tables: [
                counts(
                    "telemetry-caption", "Dropped telemetry, by signal.", "Signal", document.telemetryDrops,
                    level: .warning, empty: "No telemetry was dropped."),
                counts(
                    "rejections-caption", "Rejected messages and connections, by reason.",
                    "Reason", document.wireRejections, level: .plain, empty: "No malformed requests."),
            ])
    }

    private static func counts(
        _ id: String, _ caption: String, _ name: String, _ counts: [StatusDocument.Count], level: StatusLevel,
        empty: String
    ) -> StatusTable {
        let rows = counts.filter { $0.total > 0 }.map { count in
            StatusRow(
                StatusFormatter.words(count.kind),
                [
                    StatusCell(number: StatusFormatter.whole(count.recent), level: count.recent > 0 ? level : .plain),
                    StatusCell(number: StatusFormatter.whole(count.total)),
                ])
        }
        return StatusTable(
            id, caption, [.words(name), .number("Recent"), .number("Since start")], rows, empty: empty)
    }
}
