import ArgumentParser
import Foundation

/// `cloakroom top`: what a running gateway does, on one screen of a terminal.
struct Top: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show what a running gateway does.",
        discussion: """
            Reads /status.json from the admin listener and prints the state, the alerts, the busiest routes and the \
            targets every 2 seconds. Rates and percentiles cover the last minutes. End it with Ctrl-C. If the admin listener requires a \
            token, set CLOAKROOM_ADMIN_TOKEN or --token-file. The token is sent without TLS only to this machine.
            """)

    @OptionGroup var listener: AdminListenerOptions

    @Flag(help: "Print once and exit. Exits with 1 if the gateway does not respond.")
    var once = false

    /// The maximum size of the status: more than that of 1,000 routes.
    private static let maximumBytes = 4 << 20
    private static let timeLimit: Duration = .seconds(5)

    func run() async throws {
        let address = try listener.address()
        let terminal = ProcessInfo.processInfo.environment["TERM"] ?? "dumb"
        let isTerminal = isatty(STDOUT_FILENO) == 1 && terminal != "dumb"
        var hasStatus = false
        while true {
            do {
                let screen = TopScreen(status: try await status(at: address), address: address)
                try CommandOutput.print(isTerminal ? Self.onTerminal(screen) : screen.text() + "\n")
                hasStatus = true
            } catch let error as AdminExchange.Failure {
                // The first failure ends the command. Later ones are shown, because a gateway may be restarted.
                guard hasStatus, !once else { throw try CommandFailure.exit("cloakroom: \(error)") }
                try CommandOutput.print(isTerminal ? "\u{1B}[H\u{1B}[J\(error)\n" : "\(error)\n\n")
            }
            if once { return }
            try await Task.sleep(for: .seconds(2))
        }
    }

    private func status(at address: String) async throws -> TopScreen.Status {
        let body = try await listener.get(
            "/status.json", at: address, limit: Self.timeLimit, maximumBytes: Self.maximumBytes)
        guard let status = TopScreen.Status(json: body) else {
            throw AdminExchange.Failure(
                "\(address) is not an admin listener of this version: /status.json is not a status document")
        }
        return status
    }

    /// From the top left corner; each line and then the screen is erased to its end, which does not flicker.
    private static func onTerminal(_ screen: TopScreen) -> String {
        var size = winsize()
        let isKnown = ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0 && size.ws_row > 0
        let text = screen.text(
            width: isKnown ? Int(size.ws_col) : 80, height: isKnown ? Int(size.ws_row) - 1 : 23)
        return "\u{1B}[H" + text.replacing("\n", with: "\u{1B}[K\n") + "\u{1B}[J"
    }
}
