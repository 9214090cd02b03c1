import Foundation
import Glibc
import MockAPI
import TestSupport
import Testing

/// The effect of a reload on a running `cloakroom serve`, and what it shows to operators.
@Suite("Outcome of a reload", .serialized, .timeLimit(.minutes(2)))
struct ReloadOutcomeTests {
    /// The members of `/status.json` that these tests check.
    fileprivate struct Status: Decodable {
        struct Config: Decodable {
            struct Reload: Decodable {
                var succeeded: Bool
                var problems: [String]
            }

            var hash: String
            var last_reload: Reload?
        }

        var config: Config
    }

    private func counters(failures: Int, successes: Int, last: Int) -> Set<String> {
        [
            "cloakroom_config_reloads_total{outcome=\"failure\"} \(failures)",
            "cloakroom_config_reloads_total{outcome=\"success\"} \(successes)",
            "cloakroom_config_last_reload_successful \(last)",
        ]
    }

    @Test("A rejected reload shows in the metrics and in /status.json until a reload succeeds")
    func rejected() async throws {
        try await GatewayProcess.running(set: ["reload.interval=0s"]) { served, _ in
            try await expect(Set(served.metrics()), equals: counters(failures: 0, successes: 0, last: 1))
            let first = try await served.config()
            expect(first.last_reload == nil)

            let broken = served.yaml.replacing("path: /episodes", with: "path: episodes")
            try await served.reload(broken, until: #"cloakroom_config_reloads_total{outcome="failure"} 1"#)
            try await expect(Set(served.metrics()), equals: counters(failures: 1, successes: 0, last: 0))
            let rejected = try await served.config()
            expect(rejected.hash, equals: first.hash)
            _ = try await served.program.waits(for: "the mistake with its place") { program in
                program.output.contains("cloakroom.yaml:") && program.output.contains("routes.0.path") ? true : nil
            }
            let reload = try require(rejected.last_reload)
            expect(!reload.succeeded)
            expect(reload.problems.count, equals: 1)
            expect(reload.problems.allSatisfy { $0.contains("routes.0.path") })
            try await expect(served.client.get("/episodes").status, equals: 200)

            let locked = served.yaml.replacing("requiresAuthorization: false", with: "requiresAuthorization: true")
            try await served.reload(locked, until: #"cloakroom_config_reloads_total{outcome="success"} 1"#)
            try await expect(Set(served.metrics()), equals: counters(failures: 1, successes: 1, last: 1))
            let good = try await served.config()
            expect(good.hash != first.hash)
            expect(good.last_reload?.succeeded, equals: true)
            expect(good.last_reload?.problems, equals: [])
            try await expect(served.client.get("/episodes").status, equals: 401)
        }
    }

    @Test("A watched file is reloaded without a signal")
    func watched() async throws {
        try await GatewayProcess.running(set: ["reload.interval=100ms"]) { gateway, _ in
            try gateway.write(
                gateway.yaml.replacing("requiresAuthorization: false", with: "requiresAuthorization: true"))
            try await eventually("the route requires a session") {
                try await gateway.client.get("/episodes").status == 401
            }
        }
    }

    @Test("A changed log level applies from the reload on")
    func logLevel() async throws {
        try await GatewayProcess.running(set: ["reload.interval=0s"]) { served, _ in
            let client = served.client
            try await expect(client.signIn().status, equals: 200)
            let quiet = served.yaml + "logging: { level: error }\n"
            try await served.reload(quiet, until: #"cloakroom_config_reloads_total{outcome="success"} 1"#)
            try await expect(client.signIn(password: "wrong").status, equals: 401)
            try await served.reload(served.yaml, until: #"cloakroom_config_reloads_total{outcome="success"} 2"#)
            try await expect(client.signIn().status, equals: 200)
            served.program.send(SIGTERM)
            try await expect(served.program.ending(), equals: ChildProgram.Ending(status: 0))
            // The access log is written at every log level.
            let lines = served.program.logLines.filter { ["access", "cloakroom"].contains($0.logger) }
            let told = lines.compactMap { $0.status.map(String.init) ?? $0.message }
            let expected = [
                "200", "sign-in attempted", "401", "configuration reloaded", "200", "sign-in attempted",
            ]
            expect(told.filter(expected.contains).sorted(), equals: expected.sorted())
        }
    }
}

extension GatewayProcess {
    /// Reloads another file, and waits until the metrics contain the outcome.
    fileprivate func reload(_ yaml: String, until counter: String) async throws {
        try write(yaml)
        program.send(SIGHUP)
        try await eventually(counter) { try await metrics().contains(counter) }
    }

    /// The metrics of the configuration, without times.
    fileprivate func metrics() async throws -> [String] {
        try await WebClient(admin).get("/metrics").body.split(separator: "\n").map(String.init)
            .filter { $0.hasPrefix("cloakroom_config_") && !$0.contains("_timestamp_") }
    }

    fileprivate func config() async throws -> ReloadOutcomeTests.Status.Config {
        try await WebClient(admin).get("/status.json").json(as: ReloadOutcomeTests.Status.self).config
    }
}
