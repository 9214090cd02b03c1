public import CloakroomCore

/// The output and exit code of a configuration command.
///
/// Folder `Reports/`: the output of the commands that only read a configuration, and the reference of all keys.
public struct CommandReport: Sendable, Equatable {
    /// One line of text.
    enum Line: Sendable, Equatable {
        case text(String)
        case diagnostic(ConfigDiagnostic)
    }

    private let lines: [Line]
    /// The report as one JSON document with a line break at its end; see `reportDocument`. Contains no secret.
    public let json: String
    /// 0: success; 1: the configuration has errors; 3: a path became public.
    public let exitCode: Int32

    init(lines: [Line], document: some Encodable, exitCode: Int32 = 0) {
        self.lines = lines
        self.json = document.reportDocument
        self.exitCode = exitCode
    }

    init(lines: [String], document: some Encodable, exitCode: Int32 = 0) {
        self.init(lines: lines.map(Line.text), document: document, exitCode: exitCode)
    }

    /// Reports the problems for which a configuration is rejected.
    init(_ sources: ConfigSources, rejectedBecauseOf problems: [ConfigDiagnostic]) {
        self.init(
            lines: problems.map(Line.diagnostic), document: CheckDocument(sources, problems: problems), exitCode: 1)
    }

    /// The lines, each with a line break. Contains no secret.
    public var text: String { text(inColor: false) }

    /// The lines; in color, the severities of problems are colored for a terminal.
    public func text(inColor isColored: Bool) -> String {
        lines.map { line in
            switch line {
            case .text(let text): text + "\n"
            case .diagnostic(let problem): problem.line(inColor: isColored) + "\n"
            }
        }.joined()
    }

    /// Loads a configuration and reports on it, or reports its errors and warnings, one per line.
    static func on(_ sources: ConfigSources, _ report: (LoadedConfig) -> CommandReport) -> CommandReport {
        do throws(ConfigDiagnostics) {
            return report(try loadConfig(sources))
        } catch {
            return CommandReport(
                sources, rejectedBecauseOf: ConfigDiagnostics.ordered(error.problems + error.warnings))
        }
    }
}

extension CommandReport {
    /// `check-config`: one line per error, warning and note; without errors, also a summary line.
    /// - Parameters:
    ///   - isStrict: Whether a warning makes the exit code 1.
    ///   - trial: Further checks of a configuration with valid values. Skipped if the sources are offline.
    public static func checkConfig(
        _ sources: ConfigSources, isStrict: Bool = false,
        trial: (GatewayConfiguration) -> [ConfigFinding] = { _ in [] }
    ) -> CommandReport {
        on(sources) { config in
            let found = config.problems(sources.isOffline ? [] : trial(config.configuration))
            let problems = ConfigDiagnostics.ordered(config.warnings + config.notes + found)
            var document = CheckDocument(sources, problems: problems)
            document.routes = config.configuration.routes.count
            document.upstreams = config.configuration.upstreams.count
            let lines = problems.map(Line.diagnostic)
            guard document.valid else { return CommandReport(lines: lines, document: document, exitCode: 1) }
            let counts = [
                count(config.configuration.routes.count, "route"),
                count(config.configuration.upstreams.count, "upstream"),
                document.warnings == 0 ? nil : count(document.warnings, "warning"),
                sources.isOffline ? "secrets and certificates not read" : nil,
            ].compactMap(\.self).joined(separator: ", ")
            return CommandReport(
                lines: lines + [.text("\(sources.name): ok (\(counts))")], document: document,
                exitCode: isStrict && document.warnings > 0 ? 1 : 0)
        }
    }

    /// `print-config`: the effective values with their sources; secrets redacted.
    public static func printConfig(_ sources: ConfigSources) -> CommandReport {
        on(sources) { config in
            let rows = config.values.map { [$0.key, $0.value.escaped, $0.origin] }
            return CommandReport(
                lines: Table.lines([["KEY", "VALUE", "ORIGIN"]] + rows),
                document: ValuesDocument(configuration: sources.name, values: config.values))
        }
    }

    private static func count(_ number: Int, _ noun: String) -> String {
        number == 1 ? "1 \(noun)" : "\(number) \(noun)s"
    }
}

/// Text in columns.
enum Table {
    /// Pads all cells except the last of each row to the column width.
    static func lines(_ rows: [[String]]) -> [String] {
        var widths: [Int] = []
        for row in rows {
            for (column, cell) in row.enumerated() {
                if column == widths.count { widths.append(0) }
                // Limits the width to 48 so that one long value does not widen the whole table.
                widths[column] = max(widths[column], min(cell.count, 48))
            }
        }
        return rows.map { row in
            row.enumerated().map { column, cell in
                column == row.count - 1
                    ? cell : cell + String(repeating: " ", count: max(0, widths[column] - cell.count))
            }.joined(separator: "  ")
        }
    }
}

extension CommandReport {
    /// `routes`: the route table in file order, and the sign-in endpoints.
    public static func routes(_ sources: ConfigSources) -> CommandReport {
        on(sources) { config in
            let document = RoutesDocument(sources, config.configuration)
            var rows = [["NAME", "METHODS", "PATH", "TARGET", "AUTHORIZATION", "INJECTS"]]
            rows += document.routes.map { route in
                [
                    route.name, route.methods.joined(separator: ","), route.path, route.target,
                    route.requiresAuthorization ? "required" : "public",
                    route.injects.isEmpty ? "-" : route.injects.joined(separator: ","),
                ]
            }
            rows += document.local.map { ["(local)", $0.methods.joined(separator: ","), $0.path, "-", "-", "-"] }
            // Columns of their own only for tables that have such values.
            let columns = [
                ("HOSTS", document.routes.map(\.hosts)), ("SITES", document.routes.map(\.sites)),
                ("RATE", document.routes.map(\.rate)),
                ("CREDENTIALS", document.routes.map { $0.credentials.map { [$0] } }),
            ]
            for (title, values) in columns where values.contains(where: { $0 != nil }) {
                let cells = [title] + values.map { $0?.joined(separator: ",") ?? "-" }
                for index in rows.indices { rows[index].append(index < cells.count ? cells[index] : "-") }
            }
            return CommandReport(lines: Table.lines(rows), document: document)
        }
    }
}
