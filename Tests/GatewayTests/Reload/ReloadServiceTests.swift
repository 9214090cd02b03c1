import CloakroomCore
import Foundation
import TestSupport
import Testing

@testable import CloakroomConfig
@testable import cloakroom

/// How a running configuration changes with its files.
@Suite("Reload", .timeLimit(.minutes(1)))
struct ReloadServiceTests {
    private func paths(_ bench: borrowing ReloadFixture) -> [String] {
        bench.gateway.plannedResponses.map { $0.routes[0].pattern.description }
    }

    @Test("An unchanged file is skipped by a poll, and applied again by a signal")
    func unchanged() async throws {
        var bench = try ReloadFixture()
        await bench.handle(.poll)
        expect(bench.outcomes, equals: [])
        expect(bench.state.status.lastReload, equals: nil)
        await bench.handle(.signal)
        expect(bench.outcomes, equals: [[]])
        expect(paths(bench), equals: ["/episodes"])
        // Rewritten with the same contents.
        try bench.write(ReloadFixture.yaml())
        await bench.settle()
        expect(bench.outcomes, equals: [[]])
    }

    @Test("A changed file is applied once, and the status shows it")
    func changed() async throws {
        var bench = try ReloadFixture()
        let before = bench.state.status
        expect(before.hash.count, equals: 12)
        expect(before.loadedAt, equals: WallTime(milliseconds: 1))
        try bench.write(ReloadFixture.yaml(path: "/films") + "reload: { interval: 0s }\n")
        await bench.handle(.poll)
        expect(paths(bench), equals: [])
        await bench.handle(.poll)
        await bench.handle(.poll)
        expect(paths(bench), equals: ["/films"])
        expect(bench.gateway.outcomes.map(\.isSuccess), equals: [true])
        let after = bench.state.status
        expect(after.hash != before.hash)
        expect(bench.gateway.outcomes.map(\.hash), equals: [after.hash])
        expect(after.loadedAt, equals: WallTime(milliseconds: 2))
        expect(after.lastReload, equals: ConfigStatus.Reload(time: WallTime(milliseconds: 2)))
        expect(bench.state.configuration, equals: ReloadConfiguration(interval: .zero))
    }

    @Test("An invalid file keeps the old configuration; its mistake is reported once by polls, and on every signal")
    func broken() async throws {
        var bench = try ReloadFixture()
        let before = bench.state.status
        try bench.write(ReloadFixture.yaml().replacing("GET", with: "get"))
        for _ in 0..<3 { await bench.handle(.poll) }
        let valueError = "cloakroom.yaml:7:33: routes.0.methods.0: must be upper case, not \"get\" (write GET)"
        expect(bench.outcomes, equals: [[valueError]])
        await bench.handle(.signal)
        await bench.handle(.signal)
        expect(bench.outcomes, equals: [[valueError], [valueError], [valueError]])
        expect(paths(bench), equals: [])
        let status = bench.state.status
        expect(status.hash, equals: before.hash)
        expect(status.loadedAt, equals: before.loadedAt)
        expect(status.lastReload?.problems.count, equals: 1)

        try bench.write(ReloadFixture.yaml().replacing("GET", with: "geT"))
        await bench.settle()
        expect(bench.outcomes.count, equals: 4)
        // Back to the configuration in effect: the failure is over.
        try bench.write(ReloadFixture.yaml())
        await bench.settle()
        expect(bench.outcomes.last, equals: [])
        expect(bench.state.status.lastReload?.problems, equals: [])
    }

    @Test("A half-written file is not applied, even if it is valid")
    func halfWritten() async throws {
        var bench = try ReloadFixture()
        let whole = ReloadFixture.yaml(path: "/films")
        let route = try require(ReloadFixture.yaml().split(separator: "\n").last)
        let second = route.replacing("episodes", with: "cinemas") + "\n"
        let third = second.replacing("cinemas", with: "theatres")
        // The first of three routes, two routes, a line that is cut off, and finally all three routes.
        for text in [whole, whole + second, String((whole + second).dropLast(30)), whole + second + third] {
            try bench.write(text)
            await bench.handle(.poll)
            expect(bench.outcomes, equals: [])
        }
        await bench.handle(.poll)
        expect(bench.outcomes, equals: [[]])
        expect(bench.gateway.plannedResponses.map(\.routes.count), equals: [3])
    }

    @Test("A change that is reverted between polls has no effect")
    func changedBack() async throws {
        var bench = try ReloadFixture()
        for _ in 0..<2 {
            try bench.write(ReloadFixture.yaml(path: "/films"))
            await bench.handle(.poll)
            try bench.write(ReloadFixture.yaml())
            await bench.handle(.poll)
        }
        expect(bench.outcomes, equals: [])
        // A signal applies a change without a second poll.
        try bench.write(ReloadFixture.yaml(path: "/films"))
        await bench.handle(.signal)
        expect(paths(bench), equals: ["/films"])
    }

    @Test("A secret file that only the new configuration names must be complete too before it is applied")
    func newSecretFile() async throws {
        var bench = try ReloadFixture()
        try bench.write(ReloadFixture.yaml(token: "valueFile: later"))
        for secret in ["sec", "secret"] {
            try bench.write(secret, to: "later")
            await bench.handle(.poll)
            expect(bench.outcomes, equals: [])
        }
        await bench.handle(.poll)
        expect(bench.gateway.plannedResponses.map { $0.upstreams[0].apiToken?.value }, equals: [Secret("secret")])
    }

    @Test("A missing file is reported once")
    func vanished() async throws {
        var bench = try ReloadFixture()
        let path = bench.directory.path(of: "cloakroom.yaml")
        try FileManager.default.removeItem(atPath: path)
        await bench.settle()
        await bench.settle()
        expect(bench.outcomes.count, equals: 1)
        expect(bench.outcomes[0].count, equals: 1)
        expect(bench.gateway.outcomes[0].problems[0].hasPrefix("\(path): must be an existing file"))
        expect(paths(bench), equals: [])
    }

    @Test("A change that requires a restart is rejected as a whole, key by key")
    func restart() async throws {
        var bench = try ReloadFixture()
        try bench.write(
            ReloadFixture.yaml(path: "/films").replacing("cookie:", with: "idleTimeout: 1m\n  cookie:")
                + "eventLoops: 1\n")
        await bench.settle()
        expect(paths(bench), equals: [])
        expect(bench.outcomes.count, equals: 1)
        expect(
            bench.outcomes[0].map { $0.prefix { $0 != "(" } },
            equals: [
                "cloakroom.yaml:5:16: session.idleTimeout: cannot change while the gateway runs ",
                "cloakroom.yaml:9:13: eventLoops: cannot change while the gateway runs ",
            ])
        expect(bench.outcomes[0].allSatisfy { $0.contains("restart the gateway") })
    }

    @Test("A configuration that the gateway fails to apply is rejected, and retried until it succeeds")
    func rejected() async throws {
        var bench = try ReloadFixture()
        bench.gateway.reject("/nowhere/tls.crt cannot be read")
        try bench.write(ReloadFixture.yaml(path: "/films"))
        await bench.settle()
        await bench.settle()
        expect(bench.outcomes, equals: [["/nowhere/tls.crt cannot be read"]])
        bench.gateway.reject(nil)
        await bench.handle(.poll)
        await bench.handle(.poll)
        expect(bench.outcomes, equals: [["/nowhere/tls.crt cannot be read"], []])
        expect(paths(bench), equals: ["/films"])
    }

    @Test("Problems that only a trial finds are found before anything is applied")
    func checked() async throws {
        let key = ["upstreams", "api", "targets"]
        let finding = ConfigFinding(key: key, message: "no good", suggestion: "write another")
        var bench = try ReloadFixture(checks: [finding])
        await bench.handle(.signal)
        expect(bench.outcomes, equals: [["cloakroom.yaml:3:19: upstreams.api.targets: no good (write another)"]])
        expect(paths(bench), equals: [])
    }

    @Test("A warning does not prevent a configuration from being applied, and is reported with the outcome")
    func warnings() async throws {
        let key = ["upstreams", "api", "targets"]
        let warning = ConfigFinding(key: key, message: "old", suggestion: "replace it", isWarning: true)
        var bench = try ReloadFixture(checks: [warning])
        await bench.handle(.signal)
        expect(bench.outcomes, equals: [[]])
        let told = bench.gateway.outcomes.flatMap(\.warnings)
        expect(told.count, equals: 1)
        expect(
            told.allSatisfy { $0.hasSuffix("cloakroom.yaml:3:19: warning: upstreams.api.targets: old (replace it)") })
    }

    @Test("A change of a secret file is a change, also if a symbolic link is swapped as Kubernetes does")
    func secretFiles() async throws {
        let yaml = ReloadFixture.yaml(token: "valueFile: mounted/token")
        let directory = try TemporaryDirectory()
        let files = FileManager.default
        for (name, token) in [("one", "first"), ("two", "second")] {
            try files.createDirectory(atPath: directory.path(of: name), withIntermediateDirectories: true)
            try directory.write(token + "\n", to: name + "/token")
        }
        func link(_ name: String) throws {
            let new = directory.path(of: "..new")
            try files.createSymbolicLink(atPath: new, withDestinationPath: name)
            guard rename(new, directory.path(of: "..data")) == 0 else { throw CocoaError(.fileWriteUnknown) }
        }
        try link("one")
        var bench = try ReloadFixture(
            yaml.replacing("mounted/token", with: directory.path(of: "..data") + "/token"))
        await bench.settle()
        expect(bench.outcomes, equals: [])
        try link("two")
        await bench.settle()
        await bench.settle()
        expect(bench.outcomes, equals: [[]])
        expect(bench.gateway.plannedResponses.map { $0.upstreams[0].apiToken?.value }, equals: [Secret("second")])
        // A file that was missing and is created is found without a change of the configuration.
        try bench.write(ReloadFixture.yaml(token: "valueFile: later"))
        await bench.settle()
        expect(bench.gateway.outcomes.last?.isSuccess, equals: false)
        try bench.write("third\n", to: "later")
        await bench.settle()
        expect(bench.gateway.outcomes.last?.isSuccess, equals: true)
        expect(!bench.outcomes.description.contains("third"))
        expect(bench.gateway.plannedResponses.last?.upstreams[0].apiToken?.value, equals: Secret("third"))
    }

    @Test("Triggers are handled one after the other, in order")
    func serialized() async throws {
        let bench = try ReloadFixture { gateway in
            // An attempt that takes some time; the next attempt waits until it has finished.
            for _ in 0..<100 { await Task.yield() }
            expect(gateway.plannedResponses.count, equals: gateway.outcomes.count)
        }
        let (triggers, trigger) = AsyncStream<ReloadTrigger>.makeStream()
        let service = ReloadService(triggers: triggers, reloader: bench.reloader)
        for next in [ReloadTrigger.signal, .poll, .signal, .signal] { trigger.yield(next) }
        trigger.finish()
        await service.run()
        expect(bench.gateway.outcomes.map(\.trigger), equals: [.signal, .signal, .signal])
        expect(bench.gateway.plannedResponses.count, equals: 3)
    }

    @Test("The status of a configuration from standard input has that name and a hash, also after a reload")
    func standardInput() async throws {
        let file = try ReloadFixture()
        var piped = try ReloadFixture(isPiped: true)
        let state = piped.state
        expect(state.status.file, equals: "standard input")
        let expected = file.state.status.hash
        expect(state.status.hash, equals: expected)
        await piped.handle(.signal)
        expect(state.status.lastReload?.problems, equals: [])
        expect(state.status.hash, equals: expected)
    }

    @Test("A request gets the outcome of its reload, also if no file has changed; the stages are reported")
    func requested() async throws {
        let bench = try ReloadFixture()
        let (triggers, trigger) = AsyncStream<ReloadTrigger>.makeStream()
        let service = ReloadService(triggers: triggers, reloader: bench.reloader)
        let serving = Task { await service.run() }
        func request() async -> ReloadOutcome? {
            await withCheckedContinuation { trigger.yield(.request(ReloadRequest($0))) }
        }

        let unchanged = await request()
        expect(unchanged?.problems, equals: [])
        expect(bench.gateway.stages, equals: [.began, .ended])
        bench.gateway.reject("the certificate is invalid")
        let rejected = await request()
        expect(rejected?.problems, equals: ["the certificate is invalid"])
        expect(bench.gateway.outcomes.count, equals: 2)
        expect(bench.gateway.stages, equals: [.began, .ended, .began, .ended])

        trigger.finish()
        await serving.value
        await expect(request(), equals: nil)
    }

    @Test("A poll reports a reload only when it applies a configuration")
    func pollStages() async throws {
        var bench = try ReloadFixture()
        let unchanged = await bench.handle(.poll)
        try bench.write(ReloadFixture.yaml(path: "/films"))
        let unconfirmed = await bench.handle(.poll)
        expect(unchanged == nil && unconfirmed == nil)
        expect(bench.gateway.stages, equals: [])
        let applied = await bench.handle(.poll)
        expect(applied?.isSuccess, equals: true)
        expect(bench.gateway.stages, equals: [.began, .ended])
    }
}
