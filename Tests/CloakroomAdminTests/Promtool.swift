import Foundation

/// The real checker of Prometheus' exposition formats; Debian's package `prometheus` has it.
struct Promtool {
    struct NotInstalled: Error, CustomStringConvertible {
        var description: String { "promtool is not on PATH: install Debian's package prometheus" }
    }

    private let executable: URL

    init() throws {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        let candidates = folders.map { "\($0)/promtool" }
        guard let path = candidates.first(where: { FileManager.default.isExecutableFile(atPath: $0) }) else {
            throw NotInstalled()
        }
        executable = URL(fileURLWithPath: path)
    }

    /// Runs `promtool check metrics` and returns its exit status and what it said.
    func checkMetrics(_ exposition: Data) throws -> (status: Int32, complaints: String) {
        // A file rather than a pipe: promtool may stop reading early, and a pipe would then block or break.
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try exposition.write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let process = Process()
        process.executableURL = executable
        process.arguments = ["check", "metrics"]
        process.standardInput = try FileHandle(forReadingFrom: file)
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let said = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: said, as: UTF8.self))
    }
}
