import ArgumentParser
import Foundation
import Logging
import MockAPI
import ServiceLifecycle
import UnixSignals

/// `cloakroom-demo mock-api`: an upstream API for trying out the gateway.
struct MockAPICommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mock-api", abstract: "Run a mock upstream API for trying out the gateway.")

    @Option(help: "The address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "The port to listen on, 0 for a free one.")
    var port = 9_000

    @Option(help: "The X-API-TOKEN value that every request must contain.")
    var apiToken = "demo-api-token"

    @Option(help: "A file that contains the token, with an optional trailing line break; overrides --api-token.")
    var apiTokenFile: String?

    @Option(help: ArgumentHelp("Test user; repeatable.", valueName: "email:password"))
    var user: [String] = []

    @Option(help: "Access token lifetime in seconds.")
    var accessTokenLifetime = 300.0

    @Flag(help: "Serve recorded requests at /__mock/requests, and endpoints with slow or large responses.")
    var exposeObservations = false

    func validate() throws {
        guard (0...65_535).contains(port) else { throw ValidationError("--port must be 0 to 65535") }
        guard (0...1_000_000_000).contains(accessTokenLifetime) else {
            throw ValidationError("--access-token-lifetime must be a number of seconds, 0 to 1000000000")
        }
        for account in user where account.firstIndex(of: ":") == nil {
            throw ValidationError("--user must be email:password")
        }
    }

    private func token() throws -> String {
        guard let apiTokenFile else { return apiToken }
        guard let text = try? String(contentsOfFile: apiTokenFile, encoding: .utf8) else {
            throw ValidationError(
                "--api-token-file: \(apiTokenFile) cannot be read (check its path and its permissions)")
        }
        return text.trimmingCharacters(in: .newlines)
    }

    func run() async throws {
        var settings = MockAPISettings.demo
        settings.host = host
        settings.port = port
        settings.apiToken = try token()
        settings.accessTokenLifetime = .seconds(accessTokenLifetime)
        settings.exposeObservations = exposeObservations
        if !user.isEmpty {
            settings.users = user.map { account in
                let parts = account.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
                let name = parts[0].prefix { $0 != "@" }
                return MockUser(email: String(parts[0]), password: String(parts[1]), name: String(name))
            }
        }
        var logger = Logger(label: "mock-api")
        logger.logLevel = .notice
        let host = self.host
        let mock = MockAPI(settings: settings) { port in
            try? FileHandle.standardOutput.write(contentsOf: Data("mock API         http://\(host):\(port)\n".utf8))
        }
        let group = ServiceGroup(
            services: [mock], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        try await group.run()
    }
}
