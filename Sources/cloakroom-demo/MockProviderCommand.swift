import ArgumentParser
import Foundation
import Logging
import MockAPI
import ServiceLifecycle
import UnixSignals

/// `cloakroom-demo mock-provider`: an OpenID Provider for trying out the gateway.
struct MockProviderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mock-provider", abstract: "Run a mock OpenID Provider for trying out the gateway.",
        discussion: """
            Signs in one user without a password: never use it for anything but trials. The client is cloakroom with the \
            secret cloakroom-client-secret.
            """)

    @Option(help: "The port to listen on, 0 for a free one.")
    var port = 9_100

    @Option(help: ArgumentHelp("A redirect URI of the client; repeatable. Default: any.", valueName: "URL"))
    var redirectURI: [String] = []

    @Option(help: "Access token lifetime in seconds.")
    var accessTokenLifetime = 300.0

    @Flag(help: "Show a page with a link to continue, instead of signing in at once.")
    var askUser = false

    @Flag(help: "Serve the paths below /__mock, which show and change everything.")
    var exposeControl = false

    func validate() throws {
        guard (0...65_535).contains(port) else { throw ValidationError("--port must be 0 to 65535") }
        guard (0...1_000_000_000).contains(accessTokenLifetime) else {
            throw ValidationError("--access-token-lifetime must be a number of seconds, 0 to 1000000000")
        }
    }

    func run() async throws {
        var settings = MockProviderSettings()
        settings.port = port
        settings.redirectURIs = redirectURI
        settings.accessTokenLifetime = .seconds(accessTokenLifetime)
        settings.exposesControl = exposeControl
        settings.script.asksUser = askUser
        var logger = Logger(label: "mock-provider")
        logger.logLevel = .notice
        let host = settings.host
        let provider = try MockProvider(settings: settings) { port in
            try? FileHandle.standardOutput.write(contentsOf: Data("mock provider    http://\(host):\(port)\n".utf8))
        }
        let group = ServiceGroup(
            services: [provider], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        try await group.run()
    }
}
