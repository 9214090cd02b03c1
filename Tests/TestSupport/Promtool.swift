package import Foundation

/// The reference checker of Prometheus' text format, from Debian's package `prometheus`.
package struct Promtool {
    private let program: ExternalProgram

    /// Finds the program.
    package init() throws {
        program = try ExternalProgram("promtool", package: "Debian's package prometheus")
    }

    /// Runs `promtool check metrics`.
    /// - Returns: The exit status and the output. The status is 0 without findings, 1 for a syntax error, 3 for a
    ///   violated convention.
    package func checkMetrics(_ exposition: some DataProtocol) throws -> (status: Int32, problems: String) {
        let outcome = try program.run(["check", "metrics"], input: exposition)
        return (outcome.status, String(decoding: outcome.output, as: UTF8.self) + outcome.problems)
    }
}
