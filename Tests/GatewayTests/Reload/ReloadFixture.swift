import CloakroomConfig
import CloakroomCore
import Foundation
import Synchronization
import TestSupport

@testable import cloakroom

/// A configuration in a temporary folder and the reloader for it, driven by the test: no signals and no timers.
struct ReloadFixture: ~Copyable {
    let directory: TemporaryDirectory
    let state: ReloadState
    let gateway = FakeGateway()
    private(set) var reloader: Reloader

    /// - Parameters:
    ///   - isPiped: Whether the configuration comes from standard input.
    ///   - beforeApplying: Called before the gateway applies a configuration.
    init(
        _ yaml: String = yaml(), files: [String: String] = [:], checks: [ConfigFinding] = [], isPiped: Bool = false,
        beforeApplying: @escaping @Sendable (FakeGateway) async -> Void = { _ in }
    ) throws {
        let directory = try TemporaryDirectory()
        for (name, text) in files { try directory.write(text, to: name) }
        try directory.write(yaml, to: "cloakroom.yaml")
        var sources = ConfigSources(file: isPiped ? nil : directory.path(of: "cloakroom.yaml"))
        if isPiped { sources.standardInput = Array(yaml.utf8) }
        let running = try ConfigFileSnapshot.read(sources)
        let state = ReloadState(sources, running: running, now: WallTime(milliseconds: 1))
        let gateway = gateway
        self.directory = directory
        self.state = state
        reloader = Reloader(
            sources: sources, state: state, check: { _ in checks }, now: { WallTime(milliseconds: 2) },
            apply: { configuration in
                await beforeApplying(gateway)
                try gateway.apply(configuration)
            }, onProgress: { gateway.note($0) }, onOutcome: { gateway.note($0) }, running: running)
    }

    @discardableResult
    mutating func handle(_ trigger: ReloadTrigger) async -> ReloadOutcome? {
        await reloader.handle(trigger)
    }

    /// Polls twice: the second poll confirms the change that the first one found.
    mutating func settle() async {
        for _ in 0..<2 { await handle(.poll) }
    }

    func write(_ text: String, to name: String = "cloakroom.yaml") throws { try directory.write(text, to: name) }

    /// The outcomes so far: the problems of each, without the path of the folder.
    var outcomes: [[String]] {
        gateway.outcomes.map { outcome in
            outcome.problems.map { $0.replacing(directory.url.path + "/", with: "") }
        }
    }

    /// A configuration whose only route is on line 7.
    static func yaml(path: String = "/episodes", token: String = "value: demo") -> String {
        """
        listeners: [{ address: "127.0.0.1:0" }]
        upstreams:
          api: { targets: ["http://127.0.0.1:9000"], apiToken: { \(token) } }
        session:
          cookie: { secure: false }
        routes:
          - { name: episodes, methods: [GET], path: \(path), requiresAuthorization: false }

        """
    }
}

/// Accepts configurations as a gateway would, and records the calls.
final class FakeGateway: Sendable {
    struct Rejection: Error, CustomStringConvertible {
        let description: String
    }

    private struct State {
        var plannedResponses: [GatewayConfiguration] = []
        var outcomes: [ReloadOutcome] = []
        var stages: [ReloadProgress] = []
        var rejection: Rejection?
    }

    private let state = Mutex(State())

    /// The configurations that were applied.
    var plannedResponses: [GatewayConfiguration] { state.withLock { $0.plannedResponses } }

    var outcomes: [ReloadOutcome] { state.withLock { $0.outcomes } }
    var stages: [ReloadProgress] { state.withLock { $0.stages } }

    /// Rejects every configuration from now on for this reason; `nil` accepts them again.
    func reject(_ reason: String?) {
        state.withLock { $0.rejection = reason.map(Rejection.init) }
    }

    func apply(_ configuration: GatewayConfiguration) throws {
        try state.withLock { state in
            if let rejection = state.rejection { throw rejection }
            state.plannedResponses.append(configuration)
        }
    }

    func note(_ outcome: ReloadOutcome) { state.withLock { $0.outcomes.append(outcome) } }
    func note(_ stage: ReloadProgress) { state.withLock { $0.stages.append(stage) } }
}
