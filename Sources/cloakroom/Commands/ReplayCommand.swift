import ArgumentParser
import CloakroomConfig
import Foundation

/// `cloakroom replay`: decides the requests of an access log again.
struct ReplayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay", abstract: "Show which requests of an access log a configuration decides otherwise.",
        discussion: """
            Reads the lines of an access log in JSON, decides each request again, and prints the differences in groups. Sends \
            nothing. What the log does not state is reported as unknown. Exits with 3 if a request is decided otherwise, or \
            may be.
            """)

    @Argument(
        help: ArgumentHelp("The log, also compressed by gzip, or - for standard input.", valueName: "log"),
        completion: .file())
    var log: String

    // Last, because its FILE can be left out.
    @OptionGroup var options: ConfigOptions
    @OptionGroup var output: OutputOptions

    func validate() throws {
        if log.hasSuffix(".yaml") || log.hasSuffix(".yml") {
            throw ValidationError("the order is LOG FILE (write cloakroom replay access.log cloakroom.yaml)")
        }
        if log == "-", options.config == "-" || options.file == "-" {
            throw ValidationError("LOG and FILE cannot both be standard input (write one of them into a file)")
        }
    }

    func run() throws {
        let sources = try options.sources
        let name = log == "-" ? "standard input" : log
        let report: CommandReport
        do {
            let handle =
                log == "-" ? FileHandle.standardInput : try FileHandle(forReadingFrom: URL(fileURLWithPath: log))
            report = try CommandReport.replay(sources) { reader in
                // What was read is reported.
                do { try Self.read(handle, into: &reader) } catch let error as GzipReader.Defect {
                    reader.stop("it \(error.message)")
                }
            }
        } catch {
            throw try CommandFailure.exit("\(name): cannot be read: \(error.localizedDescription)")
        }
        try report.finish(asJSON: output.json)
    }

    /// Reads a log in parts, and shows the progress on a terminal.
    private static func read(_ handle: FileHandle, into reader: inout LogReader) throws {
        let isShown = isatty(STDERR_FILENO) == 1
        var gzip: GzipReader?
        var (isFirst, shown) = (true, 0)
        while let data = try handle.read(upToCount: 65_536), !data.isEmpty {
            // RFC 1952 §2.3.1.
            if isFirst, data.starts(with: [0x1f, 0x8b]) { gzip = try GzipReader() }
            isFirst = false
            let part = Array(data)
            if let gzip { try gzip.read(part) { reader.read($0) } } else { reader.read(part) }
            guard isShown, reader.lines - shown >= 100_000 else { continue }
            shown = reader.lines
            try FileHandle.standardError.write(contentsOf: Data("\r\(shown) lines".utf8))
        }
        try gzip?.finish()
        if shown > 0 { try FileHandle.standardError.write(contentsOf: Data("\r\u{1b}[K".utf8)) }
    }
}
