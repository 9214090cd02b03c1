import CloakroomTelemetry
import Foundation
import Glibc
import TestSupport
import Testing

@testable import MockAPI
@testable import cloakroom

/// A `cloakroom serve` with a configuration on disk.
struct GatewayProcess {
    let program: ChildProgram
    /// `http://127.0.0.1:…`
    let clear: String
    let admin: String
    /// `https://localhost:…`; `nil` without a certificate.
    let tls: String?
    /// The configuration that it was started with.
    let yaml: String
    private let directory: TemporaryDirectory

    var client: WebClient { WebClient(clear) }

    /// Replaces the file of the configuration.
    func write(_ yaml: String) throws { try directory.write(yaml, to: "cloakroom.yaml") }

    /// Reloads the configuration, and waits until it is applied.
    /// - Parameter yaml: Replaces the file before.
    func reload(_ yaml: String? = nil) async throws {
        if let yaml { try write(yaml) }
        func count() -> Int { program.logLines.count { $0.message == "configuration reloaded" } }
        let before = count()
        program.send(SIGHUP)
        try await eventually("the configuration is reloaded") { count() > before }
    }

    /// Explains a rejected request as `cloakroom why` does.
    /// - Parameter token: That of the admin listener.
    func why(_ response: TestResponse, token: String) async throws -> RejectionReport {
        let inPage = response.body.firstMatch(of: /[0-9a-f]{32}/).map { String($0.output) }
        let text = try require(response.problem?.request_id ?? inPage, "\(response.status)")
        let id = try require(ID128(text))
        // It is kept shortly after the response.
        return try await eventually("it is kept") {
            let found = try await WebClient(admin).get("/why?id=\(id)", [("Authorization", "Bearer \(token)")])
            return try? RejectionReport(id, Array(found.body.utf8))
        }
    }

    /// Serves a configuration while `body` runs.
    /// - Parameter set: Overrides of the configuration, as `key=value`.
    static func running<R>(
        _ configuration: GatewayYAML, set: [String] = [], body: (GatewayProcess) async throws -> R
    ) async throws -> R {
        try await running(
            yaml: configuration.yaml, isTLS: configuration.certificate != nil, set: set, body: body)
    }

    /// Serves a configuration while `body` runs.
    static func running<R>(
        yaml: String, isTLS: Bool = false, set: [String] = [], body: (GatewayProcess) async throws -> R
    ) async throws -> R {
        let directory = try TemporaryDirectory()
        try directory.write(yaml, to: "cloakroom.yaml")
        let arguments = ["serve", "--config", directory.path(of: "cloakroom.yaml")] + set.flatMap { ["--set", $0] }
        return try await ChildProgram.running(try Executables.cloakroom(), arguments) { program in
            let gateway = try await GatewayProcess(program, yaml, in: directory, isTLS: isTLS)
            try await SessionStoreFixture.isUsed(set, admin: gateway.admin)
            return try await body(gateway)
        }
    }

    /// Serves a configuration with the mock API as its upstream.
    static func running<R: Sendable>(
        before settings: MockAPISettings = .withTwoUsers, set: [String] = [],
        body: (GatewayProcess, RunningMockAPI) async throws -> R
    ) async throws -> R {
        try await MockAPI.withServer(settings) { mock in
            let configuration = GatewayYAML(upstream: mock.baseURL, apiToken: settings.apiToken)
            return try await running(configuration, set: set) { gateway in try await body(gateway, mock) }
        }
    }

    private init(
        _ program: ChildProgram, _ yaml: String, in directory: TemporaryDirectory, isTLS: Bool
    ) async throws {
        (self.program, self.yaml, self.directory) = (program, yaml, directory)
        func address(_ what: String, where isMeant: @escaping (LogLine) -> Bool) async throws -> String {
            try await program.waits(for: what) { program in
                program.logLines.first(where: isMeant)?.address
            }
        }
        let clear = try await address("clients can connect") { $0.message == "listening" && $0.tls?.isTLS == false }
        self.clear = "http://\(clear)"
        admin = "http://\(try await address("operators can connect") { $0.message == "admin listener started" })"
        guard isTLS else {
            tls = nil
            return
        }
        let encrypted = try await address("TLS") { $0.message == "listening" && $0.tls?.isTLS == true }
        tls = "https://localhost:\(encrypted.port)"
    }
}

/// The members of a log line that the tests check.
struct LogLine: Decodable {
    var time: String
    var logger: String
    var message: String?
    var address: String?
    var tls: TLS?
    var method: String?
    var path: String?
    var route: String?
    var status: Int?
    var session: String?
    var trace_id: String?

    /// Whether a listener has TLS, or the TLS version of a request.
    struct TLS: Decodable {
        var isTLS: Bool

        init(from decoder: any Decoder) throws {
            let value = try decoder.singleValueContainer()
            isTLS = (try? value.decode(Bool.self)) ?? true
        }
    }
}

extension ChildProgram {
    /// The lines that are log lines.
    var logLines: [LogLine] {
        lines.compactMap { try? JSONDecoder().decode(LogLine.self, from: Data($0.utf8)) }
    }
}

extension MockAPISettings {
    /// A mock API with two users that exposes the requests it recorded.
    static var withTwoUsers: MockAPISettings {
        MockAPISettings(
            users: [
                MockUser(email: "jo@example.com", password: "secret", name: "Jo"),
                MockUser(email: "mia@example.com", password: "geheim", name: "Mia"),
            ], exposeObservations: true)
    }
}
