import ArgumentParser
import CloakroomCore
import Foundation

/// `cloakroom top`: what a running gateway does, in a terminal.
///
/// Folder `Top/`: reads the status document of an admin listener and renders it as text.
struct Top: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show what a running gateway does.",
        discussion: """
            Reads /status.json from the admin listener and prints the state, the alerts, the busiest routes, the targets \
            and the recent failures. Rates are those since the previous update; the first ones, and percentiles, cover \
            the last minutes. End it with Ctrl-C. If the admin listener requires a token, set \
            CLOAKROOM_ADMIN_TOKEN or --token-file. The token is sent without TLS only to this machine.
            """)

    @Option(
        name: .long,
        help: ArgumentHelp(
            "The admin listener. Default: CLOAKROOM_ADMIN_ADDRESS, or http://\(AdminConfiguration().address).",
            valueName: "URL"))
    var admin: String?

    @Option(name: .long, help: ArgumentHelp("Seconds between updates, 1 to 3600.", valueName: "seconds"))
    var interval = 2

    @Flag(name: .long, help: "Print once and exit. Exits with 1 if the gateway does not respond.")
    var once = false

    @Option(name: .long, help: ArgumentHelp("A file with the admin token.", valueName: "file"))
    var tokenFile: String?

    @Option(
        name: .long,
        help: ArgumentHelp("A PEM file with the authorities of the admin listener's certificate.", valueName: "file"))
    var caFile: String?

    func validate() throws {
        guard (1...3_600).contains(interval) else {
            throw ValidationError("--interval must be from 1 to 3600 seconds (write --interval 2)")
        }
    }

    func run() async throws {
        let environment = ProcessInfo.processInfo.environment
        let source = try TopSource(
            address: admin ?? environment["CLOAKROOM_ADMIN_ADDRESS"] ?? "http://\(AdminConfiguration().address)",
            token: token(environment), caFile: caFile)
        do {
            try await show(source, TopTerminal(environment: environment))
        } catch {
            try? await source.shutdown()
            throw error
        }
        try await source.shutdown()
    }

    private func token(_ environment: [String: String]) throws -> Secret? {
        guard let tokenFile else { return environment["CLOAKROOM_ADMIN_TOKEN"].map { Secret($0) } }
        guard let data = FileManager.default.contents(atPath: tokenFile) else {
            throw ValidationError("--token-file: the file cannot be read (check its path and its permissions)")
        }
        return Secret(String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines))
    }

    /// The first failure ends the command. Later ones are shown, because a gateway may be restarted.
    private func show(_ source: TopSource, _ terminal: TopTerminal) async throws {
        var previous: (document: TopDocument, at: ContinuousClock.Instant)?
        while true {
            do {
                let document = try await source.fetch()
                let now = ContinuousClock.now
                let frame = TopFrame(
                    document, address: source.address,
                    previous: previous.map { ($0.document, (now - $0.at) / .seconds(1)) })
                try terminal.write(frame)
                previous = (document, now)
            } catch let error as TopError {
                guard previous != nil, !once else {
                    try FileHandle.standardError.write(contentsOf: Data("cloakroom: \(error)\n".utf8))
                    throw ExitCode(1)
                }
                try terminal.write("\(error)")
            }
            if once { return }
            try await Task.sleep(for: .seconds(interval))
        }
    }
}

/// Standard output. A terminal shows one frame at a time, with colors; everything else gets plain text.
struct TopTerminal {
    let isTerminal: Bool
    let usesColor: Bool

    init(environment: [String: String]) {
        isTerminal = isatty(STDOUT_FILENO) == 1 && environment["TERM"] ?? "dumb" != "dumb"
        usesColor = isTerminal && environment["NO_COLOR"] ?? "" == ""
    }

    func write(_ frame: TopFrame) throws {
        guard isTerminal else { return try put(frame.text() + "\n") }
        let size = Self.size()
        let lines = frame.text(width: size.columns, height: size.rows - 1, inColor: usesColor)
        // From the top left corner; each line and then the screen is erased to its end, which does not flicker.
        try put("\u{1B}[H" + lines.replacing("\n", with: "\u{1B}[K\n") + "\u{1B}[J")
    }

    func write(_ message: String) throws {
        try put(isTerminal ? "\u{1B}[H\u{1B}[J\(message)\n" : "\(message)\n\n")
    }

    private func put(_ text: String) throws {
        try FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
    }

    private static func size() -> (columns: Int, rows: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return (80, 24)
        }
        return (Int(size.ws_col), Int(size.ws_row))
    }
}
