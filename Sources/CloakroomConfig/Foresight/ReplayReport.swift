import CloakroomCore

/// Splits bytes into lines and replays them. At most one line is kept.
public struct LogReader: ~Copyable {
    /// The maximum length of a line in bytes; longer ones are skipped. The gateway writes shorter ones.
    static let lineLimit = 65_536

    private var replay: Replay
    private var line: [UInt8] = []
    private var isTooLong = false

    init(_ replay: Replay) { self.replay = replay }

    /// The number of complete lines.
    public var lines: Int { replay.lines }

    /// Reads the next bytes of the log.
    public mutating func read(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            append(rest[..<end])
            endLine()
            rest = rest[(end + 1)...]
        }
        append(rest)
    }

    private mutating func append(_ part: ArraySlice<UInt8>) {
        isTooLong = isTooLong || line.count + part.count > Self.lineLimit
        if isTooLong { line = [] } else { line += part }
    }

    private mutating func endLine() {
        // Of one that is too long nothing is left, which is no line of an access log.
        replay.read(line)
        line.removeAll(keepingCapacity: true)
        isTooLong = false
    }

    /// The rest of the log cannot be read.
    /// - Parameter reason: Why, for readers.
    public mutating func stop(_ reason: String) { replay.stop(reason) }

    /// The log has ended. A last line without a line feed is read too: it may be complete.
    consuming func finished() -> Replay {
        if !line.isEmpty || isTooLong { endLine() }
        return replay
    }
}

/// `replay`.
struct ReplayDocument: Encodable {
    /// Requests with the same route, and the same decisions.
    struct Group: Encodable {
        var count = 0
        /// The route in the log.
        let route: String
        let was: String
        let now: String
        /// Whether that depends on a session or a token that the log does not state.
        let unknown: Bool
        /// The first request.
        let example: String
        /// The number of the example's line.
        let line: Int
    }

    let configuration: String
    let valid = true
    var lines = 0
    /// Requests that were decided again.
    var requests = 0
    /// Requests that the log does not state completely, or that were rejected before a decision.
    var incomplete = 0
    /// Lines that belong to no access log, and the numbers of the first ones.
    var skipped = 0
    var skippedLines: [Int] = []
    var groups: [Group] = []
    /// Requests of groups beyond ``Replay/mostGroups``.
    var ungrouped = 0
    /// By route, permitted requests that need claims now; the log states none.
    var claimsUnknown: [String: Int] = [:]
    /// Why the log was not read to its end; absent if it was.
    var defect: String?

    init(configuration: String) { self.configuration = configuration }

    /// Whether it was no access log, or none of its requests could be read.
    var isUnread: Bool { requests == 0 && (skipped > 0 || defect != nil) }

    var text: [String] {
        let rows = groups.map { group in
            [
                "\(group.count)", group.unknown ? "unknown" : "differs", group.route, group.was, group.now,
                "\(group.example) (line \(group.line))",
            ]
        }
        var lines = rows.isEmpty ? [] : Table.lines([["COUNT", "", "ROUTE", "WAS", "NOW", "EXAMPLE"]] + rows)
        if ungrouped > 0 {
            lines.append("\(ungrouped) requests of more than \(Replay.mostGroups) groups are not listed")
        }
        if groups.contains(where: \.unknown) {
            lines.append("unknown: whether these requests had a session, or a valid token, is not in the log")
        }
        for (route, count) in claimsUnknown.sorted(by: { $0.key < $1.key }) {
            lines.append("route \(route): the log does not state the claims of \(count) requests that need some")
        }
        if skipped > 0 {
            let numbers = skippedLines.map(String.init).joined(separator: ", ")
            lines.append("\(skipped) lines skipped, cut or of another log: \(numbers)" + (skipped > 10 ? ", …" : ""))
        }
        if incomplete > 0 { lines.append("\(incomplete) requests not compared: rejected before a decision, or cut") }
        if let defect { lines.append("the log was read up to line \(self.lines) only: \(defect)") }
        if isUnread {
            return lines + ["error: no request was read (give an access log that is written with logging.format: json)"]
        }
        let differing = groups.reduce(ungrouped) { $0 + ($1.unknown ? 0 : $1.count) }
        return lines + ["\(requests) requests: \(differing) decided otherwise"]
    }
}

extension CommandReport {
    /// `replay`: which requests of a log a configuration decides otherwise. Exits with 3 if there is one, and with 1 if
    /// no request could be read.
    /// - Parameter readLog: Reads the log from its beginning to its end.
    public static func replay(
        _ sources: ConfigSources, readLog: (inout LogReader) throws -> Void
    ) throws -> CommandReport {
        var failure: (any Error)?
        let report = on(sources) { config in
            let replay: Replay
            do throws(TooManyClasses) { replay = try Replay(config.configuration, name: sources.name) } catch {
                let finding = ConfigFinding(key: ["routes"], message: error.message, suggestion: error.suggestion)
                return CommandReport(sources, rejectedBecauseOf: config.problems([finding]))
            }
            var reader = LogReader(replay)
            do { try readLog(&reader) } catch { failure = error }
            let document = reader.finished().result
            let isSame = document.groups.isEmpty && document.ungrouped == 0
            let code: Int32 = document.isUnread ? 1 : isSame ? 0 : 3
            return CommandReport(lines: document.text, document: document, exitCode: code)
        }
        if let failure { throw failure }
        return report
    }
}
