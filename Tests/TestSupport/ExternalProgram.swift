package import Foundation

/// An installed program that a test uses as a reference.
package struct ExternalProgram: Sendable {
    /// The program is not installed. The test fails; it is not skipped.
    package struct NotInstalled: Error, CustomStringConvertible {
        /// What to install.
        package let description: String
    }

    /// The result of a run.
    package struct Outcome: Sendable {
        /// The exit status; 124 after a timeout.
        package let status: Int32
        /// The standard output.
        package let output: Data
        /// The standard error output.
        package let problems: String
    }

    private let path: String

    /// Finds the program on `PATH`.
    /// - Parameter package: The package to install if the program is missing.
    package init(_ name: String, package: String) throws {
        path = try Self.path(of: name, package: package)
    }

    /// The path of a program on `PATH`.
    /// - Parameter package: The package to install if the program is missing.
    package static func path(of name: String, package: String) throws -> String {
        let directories = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        let candidates = directories.map { "\($0)/\(name)" }
        guard let path = candidates.first(where: { FileManager.default.isExecutableFile(atPath: $0) }) else {
            throw NotInstalled(description: "\(name) is not on PATH: install \(package)")
        }
        return path
    }

    /// Runs the program until it exits, for at most 60 s.
    package func run(_ arguments: [String], input: some DataProtocol) throws -> Outcome {
        // Files instead of pipes: the program may stop reading early, and may fill one pipe while the other is read.
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: directory) }
        let (given, said, complained) = ("in", "out", "err")
        try Data(input).write(to: directory.appendingPathComponent(given))
        let process = try ChildProcess(
            "timeout", ["60", path] + arguments,
            input: .file(directory.appendingPathComponent(given).path),
            output: .file(directory.appendingPathComponent(said).path),
            errors: .file(directory.appendingPathComponent(complained).path))
        return Outcome(
            status: process.waitUntilEnd().status,
            output: try Data(contentsOf: directory.appendingPathComponent(said)),
            problems: String(
                decoding: try Data(contentsOf: directory.appendingPathComponent(complained)), as: UTF8.self))
    }
}
