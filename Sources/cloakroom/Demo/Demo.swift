import ArgumentParser
import CloakroomCore
import CloakroomProxy
import CloakroomTelemetry
import Foundation
import Logging
import MockAPI
import ServiceLifecycle

/// `cloakroom demo`: runs the gateway and a mock API in one process.
///
/// Folder `Demo/`: a gateway with certificate, configuration and mock API in one process.
struct Demo: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run a demo: the gateway with a mock API as its upstream and one test user.",
        discussion: "Prints the addresses of all listeners and example commands. Ctrl-C ends it.")

    @Option(help: "The gateway's TLS port, 0 for a free one.")
    var port = 8_443

    @Option(help: "The gateway's clear-text port, 0 for a free one.")
    var clearPort = 8_080

    @Option(help: "The admin listener's port, 0 for a free one.")
    var adminPort = 9_464

    @Option(help: "The API's port, 0 for a free one.")
    var apiPort = 9_000

    @Option(
        help: ArgumentHelp(
            "The issuer of an OpenID Provider that users can sign in with too. Its client has the redirect URI"
                + " https://localhost:PORT/auth/callback.", valueName: "URL"))
    var issuer: String?

    @Option(help: "The name of the provider, as the page shows it.")
    var identity = "provider"

    @Option(help: "The id of the client at the provider.")
    var clientID = "cloakroom"

    @Option(help: "A file that contains the secret of the client, with an optional trailing line break.")
    var clientSecretFile: String?

    func validate() throws {
        if issuer != nil {
            guard clientSecretFile != nil else { throw ValidationError("--issuer requires --client-secret-file") }
            guard port != 0 else { throw ValidationError("--issuer requires a --port that the provider knows") }
        }
        for (name, value) in [
            ("--port", port), ("--clear-port", clearPort), ("--admin-port", adminPort), ("--api-port", apiPort),
        ] where !(0...65_535).contains(value) {
            throw ValidationError("\(name) must be a port, 0 to 65535")
        }
    }

    func run() async throws {
        CoreDumps.disable()
        let provider = try provider()
        try await CommandFailure.report {
            let certificate = try DemoCertificate()
            defer { certificate.remove() }
            try await run(certificate, provider)
        }
    }

    private func provider() throws -> DemoProvider? {
        guard let issuer, let clientSecretFile else { return nil }
        guard let text = try? String(contentsOfFile: clientSecretFile, encoding: .utf8) else {
            throw ValidationError(
                "--client-secret-file: \(clientSecretFile) cannot be read (check its path and its permissions)")
        }
        return DemoProvider(
            name: identity, issuer: issuer, clientID: clientID,
            clientSecret: Secret(text.trimmingCharacters(in: .newlines)))
    }

    private func run(_ certificate: DemoCertificate, _ provider: DemoProvider?) async throws {
        var settings = MockAPISettings()
        settings.port = apiPort
        settings.exposeObservations = true
        if let provider {
            settings.identities = [PageIdentity(name: provider.name, label: provider.name)]
            settings.userField = DemoConfiguration.userField
        }
        let apiToken = settings.apiToken
        let listening = AsyncStream.makeStream(of: Int.self)
        var quiet = Logger(label: "mock-api")
        quiet.logLevel = .critical
        let mock = MockAPI(settings: settings, logger: quiet) { port in listening.continuation.yield(port) }
        let mockServices = ServiceGroup(services: [mock], logger: quiet)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                defer { listening.continuation.finish() }
                try await mockServices.run()
            }
            var ports = listening.stream.makeAsyncIterator()
            guard let apiPort = await ports.next() else {
                // The mock API ended before it listened; `next()` throws its error.
                try await group.next()
                return
            }
            let configuration = try DemoConfiguration(
                port: port, clearPort: clearPort, adminPort: adminPort, apiPort: apiPort, apiToken: apiToken,
                certificateFile: certificate.certificateFile, keyFile: certificate.keyFile, provider: provider
            ).configuration()
            let banner = DemoBanner(apiPort: apiPort, provider: provider)
            let telemetry = GatewayTelemetry(settings: TelemetrySettings(configuration))
            let ended: Result<Void, any Error>
            do {
                let status = ConfigStatus(hash: "demo", loadedAt: .now)
                let gateway = try await Gateway(
                    configuration: configuration, telemetry: telemetry, configStatus: { status },
                    onListening: { await banner.gatewayListens($0) },
                    onAdminListening: { await banner.adminListens($0) })
                ended = .success(try await gateway.run())
            } catch {
                ended = .failure(error)
            }
            // The mock API must keep running until the gateway has drained.
            await mockServices.triggerGracefulShutdown()
            try await group.waitForAll()
            try ended.get()
        }
    }
}

/// Prints the addresses of all listeners and example commands once all listeners have started.
actor DemoBanner {
    private let apiPort: Int
    private let provider: DemoProvider?
    private var listeners: [GatewayServer.BoundListener] = []
    private var adminPort: Int?

    init(apiPort: Int, provider: DemoProvider?) {
        self.apiPort = apiPort
        self.provider = provider
    }

    func gatewayListens(_ listeners: [GatewayServer.BoundListener]) {
        self.listeners = listeners
        printIfComplete()
    }

    func adminListens(_ port: Int) {
        adminPort = port
        printIfComplete()
    }

    private func printIfComplete() {
        guard let adminPort, let tls = listeners.first(where: \.isTLS)?.address.port,
            let clear = listeners.first(where: { !$0.isTLS })?.address.port
        else { return }
        let gateway = "https://localhost:\(tls)"
        let login = provider.map {
            """

            Or continue with \($0.name), the provider at \($0.issuer):

              \(gateway)/auth/page      all ways to sign in
              \(gateway)/videos/1       leads there first, and back after the sign-in

            """
        }
        let text = """

            Cloakroom is running. It is reachable from this machine only; all data is lost when it ends (Ctrl-C).

              gateway (TLS)    \(gateway)
              gateway (clear)  http://127.0.0.1:\(clear)
              admin            http://127.0.0.1:\(adminPort)
              mock API         http://127.0.0.1:\(apiPort)

            Open \(gateway)/ in a browser (it warns of the self-signed certificate)
            and sign in as jo@example.com / secret. Or use these commands:

              curl -sk \(gateway)/episodes
              curl -sk \(gateway)/videos/1
              curl -sk -c cookies.txt -X POST -u jo@example.com:secret \(gateway)/auth
              curl -sk -b cookies.txt \(gateway)/videos/1
              curl -sk -b cookies.txt -X DELETE \(gateway)/auth
            \(login ?? "")

            """
        try? FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
    }
}
