public import CloakroomCore

/// What a command about a configuration prints, and how it ends.
public struct Report: Sendable, Equatable {
    /// The lines, each with its line break. Holds no secret.
    public let text: String
    /// 0: fine; 1: the configuration has mistakes; 3: something became public.
    public let exitCode: Int32

    init(lines: [String], exitCode: Int32 = 0) {
        self.text = lines.map { $0 + "\n" }.joined()
        self.exitCode = exitCode
    }

    /// One mistake a line.
    init(_ problems: ConfigProblems) {
        self.init(lines: problems.problems.map(\.description), exitCode: 1)
    }

    /// Loads a configuration and reports on it, or on its mistakes.
    static func on(_ sources: ConfigSources, _ report: (LoadedConfig) -> Report) -> Report {
        do throws(ConfigProblems) {
            return report(try loadConfig(sources))
        } catch {
            return Report(error)
        }
    }
}

extension Report {
    /// `check-config`: every mistake on a line of its own, or one line that says that there is none.
    public static func checkConfig(_ sources: ConfigSources) -> Report {
        checkConfig(sources) { _ in [] }
    }

    /// The same, and what `trial` finds in a plan that is right as far as its values can tell.
    /// - Parameter trial: Gives a sentence for each mistake.
    public static func checkConfig(_ sources: ConfigSources, trial: (GatewayPlan) -> [String]) -> Report {
        on(sources) { config in
            let mistakes = trial(config.plan)
            guard mistakes.isEmpty else { return Report(lines: mistakes, exitCode: 1) }
            let routes = count(config.plan.routes.count, "route")
            let upstreams = count(config.plan.upstreams.count, "upstream")
            return Report(lines: ["\(sources.file ?? "configuration"): ok (\(routes), \(upstreams))"])
        }
    }

    /// `print-config`: the values in effect, each with where it came from; secrets redacted.
    public static func printConfig(_ sources: ConfigSources) -> Report {
        on(sources) { config in
            let rows = config.values.map { value in
                [value.key, Printable.escaped(value.value), value.origin]
            }
            return Report(lines: Table.lines([["KEY", "VALUE", "ORIGIN"]] + rows))
        }
    }

    private static func count(_ number: Int, _ noun: String) -> String {
        number == 1 ? "1 \(noun)" : "\(number) \(noun)s"
    }
}

/// Text in columns.
enum Table {
    /// Pads all cells but the last of each row to the width of their column.
    static func lines(_ rows: [[String]]) -> [String] {
        var widths: [Int] = []
        for row in rows {
            for (column, cell) in row.enumerated() {
                if column == widths.count { widths.append(0) }
                // One long value must not push everything else out of sight.
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
