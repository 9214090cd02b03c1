import Foundation

/// One state of the gateway as text. Texts of the document are cut to the width and cannot contain control characters,
/// so that a name cannot change the terminal.
struct TopFrame {
    private let document: TopDocument
    private let address: String
    /// The preceding document and its age in seconds.
    private let previous: (document: TopDocument, seconds: Double)?

    /// The number of rows of a table.
    private static let maxRows = 20

    /// A document of an earlier process, or one at the same moment, is not a base for rates.
    init(_ document: TopDocument, address: String, previous: (document: TopDocument, seconds: Double)? = nil) {
        self.document = document
        self.address = address
        self.previous = previous.flatMap {
            $0.document.process.startedAt == document.process.startedAt && $0.seconds > 0.1 ? $0 : nil
        }
    }

    /// The text, each line with a line feed.
    /// - Parameters:
    ///   - width: The maximum number of characters per line; `nil` does not cut.
    ///   - height: The maximum number of lines; `nil` does not cut.
    func text(width: Int? = nil, height: Int? = nil, inColor: Bool = false) -> String {
        var lines = heading + alerts
        if !document.routes.isEmpty { lines += [.plain("")] + routes }
        if !document.upstreams.isEmpty { lines += [.plain("")] + targets }
        if let failures = document.recentFailures, !failures.isEmpty { lines += [.plain("")] + table(failures) }
        let shown = height.map { Array(lines.prefix(max($0, 1))) } ?? lines
        return shown.map { $0.rendered(width: width, inColor: inColor) + "\n" }.joined()
    }

    private var heading: [Line] {
        let (word, style): (String, Line.Style) =
            switch document.state {
            case "ready": ("Serving traffic", .good)
            case "draining": ("Draining", .warning)
            case "not_ready": ("Not ready", .bad)
            default: (document.state, .warning)
            }
        let traffic = document.traffic
        let inFlight = document.upstreams.reduce(0) { $0 &+ $1.inFlight }
        let waiting = document.upstreams.reduce(0) { $0 &+ $1.pending }
        let period = previous.map { Self.decimal($0.seconds, 1) } ?? Self.decimal(document.windowSeconds, 0)
        let process = document.process
        let name = "\(word) · Cloakroom \(process.version) · up \(Self.duration(process.uptimeSeconds))"
        return [
            Line("\(name) · \(address) · \(document.generatedAt)", style),
            .plain(
                "\(Self.rate(rate(traffic, before: previous?.document.traffic))) requests/s"
                    + " · \(Self.share(share(traffic, before: previous?.document.traffic))) failed (last \(period) s)"
                    + " · p50 \(Self.p50(traffic.latency))"
                    + " · p99 \(Self.p99(traffic.latency))"),
            .plain(
                "\(inFlight) in flight · \(waiting) waiting"
                    + (document.sessions.active.map { " · \($0) sessions" } ?? "")),
        ]
    }

    private var alerts: [Line] {
        document.concerns.map {
            $0.severity == "critical" ? Line("PROBLEM  \($0.text)", .bad) : Line("WARNING  \($0.text)", .warning)
        }
    }

    private var routes: [Line] {
        let earlier = Dictionary(
            previous?.document.routes.map { ($0.name, $0.requests) } ?? [], uniquingKeysWith: { first, _ in first })
        let rows = document.routes.map { route -> (rate: Double, cells: [String], style: Line.Style) in
            let requests = route.requests
            let before = previous.map { _ in earlier[route.name] ?? .init(total: 0, perSecond: 0, errorsTotal: 0) }
            let perSecond = rate(requests, before: before)
            let failed = share(requests, before: before)
            return (
                perSecond,
                [
                    route.name, Self.rate(perSecond), Self.share(failed), Self.p50(requests.latency),
                    Self.p95(requests.latency), Self.p99(requests.latency),
                    String(requests.total),
                ], failed ?? 0 >= 0.05 ? .bad : failed ?? 0 > 0 ? .warning : .plain
            )
        }
        // Equal rates keep the order of the document.
        let sorted = rows.enumerated().sorted { ($1.element.rate, $0.offset) < ($0.element.rate, $1.offset) }
        return Self.table(
            ["ROUTE", "REQUESTS/S", "FAILED", "P50", "P95", "P99", "TOTAL"],
            sorted.map { ($0.element.cells, $0.element.style) })
    }

    private var targets: [Line] {
        let rows = document.upstreams.flatMap { upstream in
            upstream.targets.map { target -> ([String], Line.Style) in
                let isUsable = target.state == "up" || target.state == "warming"
                return (
                    [
                        target.peer.map { "\(target.address) (\($0))" } ?? target.address, upstream.name, target.state,
                        target.inFlight.map { String($0) } ?? "-",
                        target.lastFailure.map { "\(Self.duration($0.secondsAgo)) ago: \($0.reason)" } ?? "-",
                    ], isUsable ? .plain : target.state == "draining" ? .warning : .bad
                )
            }
        }
        return Self.table(["TARGET", "UPSTREAM", "STATE", "IN FLIGHT", "LAST FAILURE"], rows, text: [1, 2, 4])
    }

    private func table(_ failures: [TopDocument.Failure]) -> [Line] {
        Self.table(
            ["FAILURE", "STATUS", "REASON", "REQUESTS", "LAST SEEN"],
            failures.map { ([$0.route, $0.status ?? "-", $0.reason, String($0.count), $0.lastAt], .plain) },
            text: [1, 2, 4])
    }

    private func rate(_ now: TopDocument.Requests, before: TopDocument.Requests?) -> Double {
        guard let previous, let before else { return now.perSecond }
        return now.total < before.total ? 0 : Double(now.total - before.total) / previous.seconds
    }

    private func share(_ now: TopDocument.Requests, before: TopDocument.Requests?) -> Double? {
        guard let before else { return now.errorShare }
        guard now.total > before.total, now.errorsTotal >= before.errorsTotal else { return nil }
        return min(Double(now.errorsTotal - before.errorsTotal) / Double(now.total - before.total), 1)
    }
}

extension TopDocument.Requests {
    init(total: UInt64, perSecond: Double, errorsTotal: UInt64) {
        self.init(total: total, perSecond: perSecond, errorShare: nil, errorsTotal: errorsTotal, latency: nil)
    }
}

extension TopFrame {
    /// A line with one style.
    struct Line {
        enum Style {
            case plain, heading, good, warning, bad

            /// The parameter of the terminal's control sequence (SGR); `nil` for none.
            var code: String? {
                switch self {
                case .plain: nil
                case .heading: "1"
                case .good: "1;32"
                case .warning: "33"
                case .bad: "1;31"
                }
            }
        }

        let text: String
        let style: Style

        init(_ text: String, _ style: Style) {
            self.text = text
            self.style = style
        }

        static func plain(_ text: String) -> Line { Line(text, .plain) }

        func rendered(width: Int?, inColor: Bool) -> String {
            let clean = TerminalText.clean(text)
            let cut = width.map { clean.unicodeScalars.count > $0 ? String(clean.prefix(max($0 - 1, 0))) + "…" : clean }
            guard inColor, let code = style.code else { return cut ?? clean }
            return "\u{1B}[\(code)m\(cut ?? clean)\u{1B}[0m"
        }
    }

    /// Columns of equal width; the first is text, the others are numbers unless listed.
    private static func table(
        _ names: [String], _ rows: [([String], Line.Style)], text: Set<Int> = []
    ) -> [Line] {
        let shown = rows.prefix(maxRows).map {
            (cells: $0.0.map { TerminalText.clean($0, limit: 120) }, style: $0.1)
        }
        let widths = names.indices.map { column in
            ([names[column]] + shown.map { $0.cells[column] }).map(\.count).max() ?? 0
        }
        func line(_ cells: [String]) -> String {
            let padded = cells.enumerated().map { column, cell in
                let space = String(repeating: " ", count: widths[column] - cell.count)
                return column == 0 || text.contains(column) ? cell + space : space + cell
            }
            var line = padded.joined(separator: "  ")
            while line.hasSuffix(" ") { line.removeLast() }
            return line
        }
        let more = rows.count - shown.count
        return [Line(line(names), .heading)] + shown.map { Line(line($0.cells), $0.style) }
            + (more > 0 ? [.plain("and \(more) more")] : [])
    }

    private static func rate(_ perSecond: Double) -> String { decimal(perSecond, perSecond < 100 ? 1 : 0) }

    private static func share(_ share: Double?) -> String { share.map { decimal($0 * 100, 1) + " %" } ?? "-" }

    private static func p50(_ latency: TopDocument.Latency?) -> String { time(latency, latency?.p50Ms, "p50_ms") }
    private static func p95(_ latency: TopDocument.Latency?) -> String { time(latency, latency?.p95Ms, "p95_ms") }
    private static func p99(_ latency: TopDocument.Latency?) -> String { time(latency, latency?.p99Ms, "p99_ms") }

    private static func time(_ latency: TopDocument.Latency?, _ milliseconds: Double?, _ name: String) -> String {
        guard let milliseconds else { return "-" }
        let isAtLeast = latency?.atLeast?.contains(name) == true
        let text =
            milliseconds < 1_000
            ? decimal(milliseconds, milliseconds < 10 ? 1 : 0) + " ms" : decimal(milliseconds / 1_000, 1) + " s"
        return (isAtLeast ? "> " : "") + text
    }

    private static func duration(_ seconds: Int64) -> String {
        let seconds = max(seconds, 0)
        return switch seconds {
        case ..<60: "\(seconds) s"
        case ..<3_600: "\(seconds / 60) min"
        case ..<86_400: "\(seconds / 3_600) h \(seconds / 60 % 60) min"
        default: "\(seconds / 86_400) d \(seconds / 3_600 % 24) h"
        }
    }

    private static func decimal(_ number: Double, _ digits: Int) -> String {
        String(format: "%.\(digits)f", locale: nil, number)
    }
}
