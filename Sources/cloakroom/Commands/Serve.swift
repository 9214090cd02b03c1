import ArgumentParser
import CloakroomConfig
import CloakroomTelemetry
import Foundation

/// `cloakroom serve`: production.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the gateway.",
        discussion: """
            SIGTERM or SIGINT lets running exchanges finish, up to timeouts.drain; a second one ends at once.
            """)

    @OptionGroup var options: ConfigOptions

    func run() async throws {
        let loaded: LoadedConfig
        do throws(ConfigProblems) {
            loaded = try loadConfig(options.sources)
        } catch {
            try FileHandle.standardError.write(
                contentsOf: Data(error.problems.map { $0.description + "\n" }.joined().utf8))
            throw ExitCode(1)
        }
        let telemetry = GatewayTelemetry(settings: TelemetrySettings(loaded.plan))
        try await CommandFailure.report { try await Gateway(plan: loaded.plan, telemetry: telemetry).run() }
    }
}

/// Says on standard error why a command cannot go on, and ends it.
enum CommandFailure {
    static func report(_ body: () async throws -> Void) async throws {
        do {
            try await body()
        } catch {
            try FileHandle.standardError.write(contentsOf: Data("cloakroom: \(error)\n".utf8))
            throw ExitCode(1)
        }
    }
}
