import ArgumentParser
import CloakroomCore
import Foundation
import NIOHTTP1

/// `cloakroom top`: what a running gateway does, on one screen of a terminal.
struct Top: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show what a running gateway does.",
        discussion: """
            Reads /status.json from the admin listener and prints the state, the alerts, the busiest routes and the \
            targets every 2 seconds. Rates and percentiles cover the last minutes. End it with Ctrl-C. If the admin listener requires a \
            token, set CLOAKROOM_ADMIN_TOKEN or --token-file. The token is sent without TLS only to this machine.
            """)

    @Option(
        name: .long,
        help: ArgumentHelp(
            "The admin listener. Default: CLOAKROOM_ADMIN_ADDRESS, or http://\(AdminConfiguration.defaults.address).",
            valueName: "URL"))
    var admin: String?

    @Flag(name: .long, help: "Print once and exit. Exits with 1 if the gateway does not respond.")
    var once = false

    @Option(name: .long, help: ArgumentHelp("A file with the admin token.", valueName: "file"))
    var tokenFile: String?

    @Option(
        name: .long,
        help: ArgumentHelp("A PEM file with the authorities of the admin listener's certificate.", valueName: "file"))
    var caFile: String?

    /// The maximum size of the status: more than that of 1,000 routes.
    private static let maximumBytes = 4 << 20
    private static let timeLimit: Duration = .seconds(5)

    func run() async throws {
        let environment = ProcessInfo.processInfo.environment
        let token = try token(environment)
        let address = try address(environment, hasToken: token != nil)
        let isTerminal = isatty(STDOUT_FILENO) == 1 && environment["TERM"] ?? "dumb" != "dumb"
        var hasStatus = false
        while true {
            do {
                let screen = TopScreen(status: try await status(of: address, token), address: address)
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

    private func token(_ environment: [String: String]) throws -> Secret? {
        var text = environment["CLOAKROOM_ADMIN_TOKEN"]
        if let tokenFile {
            guard let data = FileManager.default.contents(atPath: tokenFile) else {
                throw ValidationError("--token-file: the file cannot be read (check its path and its permissions)")
            }
            text = String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        }
        // The client would print a token with a line break as the reason of its error.
        guard text?.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) ?? true else {
            throw ValidationError(
                "the admin token contains a line break or another control character (write it in one line)")
        }
        return text.map { Secret($0) }
    }

    /// The URL of the admin listener, without a trailing slash.
    private func address(_ environment: [String: String], hasToken: Bool) throws -> String {
        let given = admin ?? environment["CLOAKROOM_ADMIN_ADDRESS"] ?? "\(AdminConfiguration.defaults.address)"
        let text = given.contains("://") ? given : "http://\(given)"
        guard let url = URLComponents(string: text), let scheme = url.scheme, ["http", "https"].contains(scheme),
            let host = url.host, !host.isEmpty, url.user == nil, url.query == nil, url.fragment == nil
        else {
            throw ValidationError("--admin must be the URL of an admin listener (write --admin http://127.0.0.1:9464)")
        }
        let isThisMachine =
            ["localhost", "::1", "[::1]"].contains(host)
            || (host.hasPrefix("127.") && IPAddress.bytes(of: host)?.count == 4)
        guard !hasToken || scheme == "https" || isThisMachine else {
            throw ValidationError(
                "the admin token is not sent to another machine without TLS (write --admin https://…)")
        }
        return text.hasSuffix("/") ? String(text.dropLast()) : text
    }

    private func status(of address: String, _ token: Secret?) async throws(AdminExchange.Failure) -> TopScreen.Status {
        let response = try await AdminExchange.get(
            address + "/status.json", at: address, token: token, caFile: caFile, limit: Self.timeLimit,
            maximumBytes: Self.maximumBytes)
        switch response.status {
        case .ok: break
        case .unauthorized:
            throw .init("\(address) requires the admin token: set CLOAKROOM_ADMIN_TOKEN or --token-file")
        case .misdirectedRequest:
            throw .init("\(address) does not allow this host name: use the IP address, or list the name")
        default: throw .init("\(address) is not an admin listener: \(response.status)")
        }
        guard let status = TopScreen.Status(json: response.body) else {
            throw .init("\(address) is not an admin listener of this version: /status.json is not a status document")
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
