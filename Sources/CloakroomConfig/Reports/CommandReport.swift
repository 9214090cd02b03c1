public import CloakroomCore

/// The output and exit code of a configuration command.
///
/// Folder `Reports/`: the output of the commands that only read a configuration, and the reference of all keys.
public struct CommandReport: Sendable, Equatable {
    /// The lines, each with a line break. Contains no secret.
    public let text: String
    /// 0: success; 1: the configuration has errors; 3: a path became public.
    public let exitCode: Int32

    init(lines: [String], exitCode: Int32 = 0) {
        self.text = lines.map { $0 + "\n" }.joined()
        self.exitCode = exitCode
    }

    /// One error per line.
    init(_ problems: ConfigDiagnostics) {
        self.init(lines: problems.problems.map(\.description), exitCode: 1)
    }

    /// Loads a configuration and reports on it, or reports its errors.
    static func on(_ sources: ConfigSources, _ report: (LoadedConfig) -> CommandReport) -> CommandReport {
        do throws(ConfigDiagnostics) {
            return report(try loadConfig(sources))
        } catch {
            return CommandReport(error)
        }
    }
}

extension CommandReport {
    /// `check-config`, not strict, without checks beyond the values.
    public static func checkConfig(_ sources: ConfigSources) -> CommandReport {
        checkConfig(sources, isStrict: false) { _ in [] }
    }

    /// `check-config`: one line per error, warning and note; without errors, also a summary line.
    /// - Parameters:
    ///   - isStrict: Whether a warning makes the exit code 1.
    ///   - trial: Further checks of a configuration with valid values. Skipped if the sources are offline.
    public static func checkConfig(
        _ sources: ConfigSources, isStrict: Bool, trial: (GatewayConfiguration) -> [ConfigFinding]
    ) -> CommandReport {
        on(sources) { config in
            let found = config.problems(sources.isOffline ? [] : trial(config.configuration))
            let problems = ConfigDiagnostics.ordered(config.warnings + config.notes + found)
            let lines = problems.map(\.description)
            guard problems.allSatisfy({ $0.severity != .error }) else {
                return CommandReport(lines: lines, exitCode: 1)
            }
            let warnings = problems.filter { $0.severity == .warning }
            let counts = [
                count(config.configuration.routes.count, "route"),
                count(config.configuration.upstreams.count, "upstream"),
                warnings.isEmpty ? nil : count(warnings.count, "warning"),
                sources.isOffline ? "secrets and certificates not read" : nil,
            ].compactMap(\.self).joined(separator: ", ")
            return CommandReport(
                lines: lines + ["\(sources.file ?? "configuration"): ok (\(counts))"],
                exitCode: isStrict && !warnings.isEmpty ? 1 : 0)
        }
    }

    /// `print-config`: the effective values with their sources; secrets redacted.
    public static func printConfig(_ sources: ConfigSources) -> CommandReport {
        on(sources) { config in
            let rows = config.values.map { value in
                [value.key, DiagnosticText.escaped(value.value), value.origin]
            }
            return CommandReport(lines: Table.lines([["KEY", "VALUE", "ORIGIN"]] + rows))
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
            let configuration = config.configuration
            var rows = [["NAME", "METHODS", "PATH", "UPSTREAM", "AUTHORIZATION", "INJECTS"]]
            rows += configuration.routes.map { route in
                [
                    route.name, route.methods.joined(separator: ","), route.pattern.description,
                    configuration.upstreams[route.upstream].name, route.requiresAuthorization ? "required" : "public",
                    Self.names(of: route.inject),
                ]
            }
            if configuration.accounts.upstream != nil {
                let prefix = configuration.accounts.prefix
                rows.append(["(local)", "POST,GET,DELETE", prefix, "-", "-", "-"])
                rows.append(["(local)", "GET,DELETE", prefix + "/sessions", "-", "-", "-"])
                rows.append(["(local)", "DELETE", prefix + "/sessions/{id}", "-", "-", "-"])
            }
            return CommandReport(lines: Table.lines(rows))
        }
    }

    private static func names(of inject: Injection) -> String {
        var names: [String] = []
        if inject.contains(.apiToken) { names.append("apiToken") }
        if inject.contains(.bearer) { names.append("bearer") }
        return names.isEmpty ? "-" : names.joined(separator: ",")
    }
}
