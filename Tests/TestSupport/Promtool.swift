package import Foundation

/// The real checker of Prometheus' text format; Debian's package `prometheus` has it.
package struct Promtool {
    private let program: ExternalProgram

    /// Finds it.
    package init() throws {
        program = try ExternalProgram("promtool", package: "Debian's package prometheus")
    }

    /// Runs `promtool check metrics`.
    /// - Returns: Its exit status, 0 for flawless, 1 for unreadable, 3 for readable but against a convention; and what it
    ///   said.
    package func checkMetrics(_ exposition: some DataProtocol) throws -> (status: Int32, problems: String) {
        let outcome = try program.run(["check", "metrics"], input: exposition)
        return (outcome.status, String(decoding: outcome.output, as: UTF8.self) + outcome.problems)
    }
}
