import CloakroomConfig
import CloakroomCore
import Foundation
import Testing

@testable import cloakroom

/// What becomes of a running configuration when its files change.
@Suite("Reload", .timeLimit(.minutes(1)))
struct ReloadServiceTests {
    private func paths(_ bench: borrowing ReloadFixture) -> [String] {
        bench.gateway.plannedResponses.map { $0.routes[0].pattern.description }
    }

    @Test("A file that has not changed is left alone by a look, and put to use again by a signal")
    func unchanged() async throws {
        var bench = try ReloadFixture()
        await bench.handle(.poll)
        #expect(bench.outcomes == [])
        #expect(bench.state.status.lastReload == nil)
        await bench.handle(.signal)
        #expect(bench.outcomes == [[]])
        #expect(paths(bench) == ["/episodes"])
        // Written anew with what it held.
        try bench.write(ReloadFixture.yaml())
        await bench.settle()
        #expect(bench.outcomes == [[]])
    }

    @Test("A file that has changed is put to use once, and the status says so")
    func changed() async throws {
        var bench = try ReloadFixture()
        let before = bench.state.status
        #expect(before.hash.count == 12)
        #expect(before.loadedAt == Timestamp(milliseconds: 1))
        try bench.write(ReloadFixture.yaml(path: "/films") + "reload: { watch: false, interval: 1s }\n")
        await bench.handle(.poll)
        #expect(paths(bench) == [])
        await bench.handle(.poll)
        await bench.handle(.poll)
        #expect(paths(bench) == ["/films"])
        #expect(bench.gateway.outcomes.map(\.isSuccess) == [true])
        let after = bench.state.status
        #expect(after.hash != before.hash)
        #expect(bench.gateway.outcomes.map(\.hash) == [after.hash])
        #expect(after.loadedAt == Timestamp(milliseconds: 2))
        #expect(after.lastReload == ConfigStatus.Reload(time: Timestamp(milliseconds: 2)))
        #expect(bench.state.configuration == ReloadConfiguration(watchesFiles: false, interval: .seconds(1)))
    }

    @Test("A broken file keeps the old configuration and says where the mistake is: once, but to every signal")
    func broken() async throws {
        var bench = try ReloadFixture()
        let before = bench.state.status
        try bench.write(ReloadFixture.yaml().replacing("GET", with: "get"))
        for _ in 0..<3 { await bench.handle(.poll) }
        let valueError = "cloakroom.yaml:7:33: routes.0.methods.0: \"get\" is not upper case (write GET)"
        #expect(bench.outcomes == [[valueError]])
        await bench.handle(.signal)
        await bench.handle(.signal)
        #expect(bench.outcomes == [[valueError], [valueError], [valueError]])
        #expect(paths(bench) == [])
        let status = bench.state.status
        #expect(status.hash == before.hash)
        #expect(status.loadedAt == before.loadedAt)
        #expect(status.lastReload?.problems.count == 1)

        try bench.write(ReloadFixture.yaml().replacing("GET", with: "geT"))
        await bench.settle()
        #expect(bench.outcomes.count == 4)
        // Back to what is in effect: the failure is over.
        try bench.write(ReloadFixture.yaml())
        await bench.settle()
        #expect(bench.outcomes.last == [])
        #expect(bench.state.status.lastReload?.problems == [])
    }

    @Test("A file that is half written is not put to use, even if it has no mistake")
    func halfWritten() async throws {
        var bench = try ReloadFixture()
        let whole = ReloadFixture.yaml(path: "/films")
        let route = try #require(ReloadFixture.yaml().split(separator: "\n").last)
        let second = route.replacing("episodes", with: "cinemas") + "\n"
        let third = second.replacing("cinemas", with: "theatres")
        // One route of three, two, in the middle of a line, and at last all of them.
        for text in [whole, whole + second, String((whole + second).dropLast(30)), whole + second + third] {
            try bench.write(text)
            await bench.handle(.poll)
            #expect(bench.outcomes == [])
        }
        await bench.handle(.poll)
        #expect(bench.outcomes == [[]])
        #expect(bench.gateway.plannedResponses.map(\.routes.count) == [3])
    }

    @Test("What changes and changes back between looks is no change")
    func changedBack() async throws {
        var bench = try ReloadFixture()
        for _ in 0..<2 {
            try bench.write(ReloadFixture.yaml(path: "/films"))
            await bench.handle(.poll)
            try bench.write(ReloadFixture.yaml())
            await bench.handle(.poll)
        }
        #expect(bench.outcomes == [])
        // A signal does not wait for a second one.
        try bench.write(ReloadFixture.yaml(path: "/films"))
        await bench.handle(.signal)
        #expect(paths(bench) == ["/films"])
    }

    @Test("A file of a secret that only the new configuration names is complete too before it is put to use")
    func newSecretFile() async throws {
        var bench = try ReloadFixture()
        try bench.write(ReloadFixture.yaml(token: "valueFile: later"))
        for secret in ["sec", "secret"] {
            try bench.write(secret, to: "later")
            await bench.handle(.poll)
            #expect(bench.outcomes == [])
        }
        await bench.handle(.poll)
        #expect(bench.gateway.plannedResponses.map { $0.upstreams[0].apiToken?.value } == [Secret("secret")])
    }

    @Test("A file that has gone is said to be so, once")
    func vanished() async throws {
        var bench = try ReloadFixture()
        let path = bench.directory.path(of: "cloakroom.yaml")
        try FileManager.default.removeItem(atPath: path)
        await bench.settle()
        await bench.settle()
        #expect(bench.outcomes.count == 1)
        #expect(bench.outcomes[0].count == 1)
        #expect(bench.gateway.outcomes[0].problems[0].hasPrefix("\(path): there is no file"))
        #expect(paths(bench) == [])
    }

    @Test("A change that takes a restart is refused as a whole, key by key")
    func restart() async throws {
        var bench = try ReloadFixture()
        try bench.write(
            ReloadFixture.yaml(path: "/films").replacing("cookie:", with: "idleTimeout: 1m\n  cookie:")
                + "eventLoops: 1\n")
        await bench.settle()
        #expect(paths(bench) == [])
        #expect(bench.outcomes.count == 1)
        #expect(
            bench.outcomes[0].map { $0.prefix { $0 != "(" } } == [
                "cloakroom.yaml:5:16: session.idleTimeout: cannot change while the gateway runs ",
                "cloakroom.yaml:9:13: eventLoops: cannot change while the gateway runs ",
            ])
        #expect(bench.outcomes[0].allSatisfy { $0.contains("restart the gateway") })
    }

    @Test("What the gateway cannot put to use stays out, and is tried again until it can")
    func rejected() async throws {
        var bench = try ReloadFixture()
        bench.gateway.reject("/nowhere/tls.crt cannot be read")
        try bench.write(ReloadFixture.yaml(path: "/films"))
        await bench.settle()
        await bench.settle()
        #expect(bench.outcomes == [["/nowhere/tls.crt cannot be read"]])
        bench.gateway.reject(nil)
        await bench.handle(.poll)
        await bench.handle(.poll)
        #expect(bench.outcomes == [["/nowhere/tls.crt cannot be read"], []])
        #expect(paths(bench) == ["/films"])
    }

    @Test("What only trying tells is tried before anything is put to use")
    func checked() async throws {
        let key = ["upstreams", "api", "targets"]
        let finding = ConfigFinding(key: key, message: "no good", suggestion: "write another")
        var bench = try ReloadFixture(checks: [finding])
        await bench.handle(.signal)
        #expect(bench.outcomes == [["cloakroom.yaml:3:19: upstreams.api.targets: no good (write another)"]])
        #expect(paths(bench) == [])
    }

    @Test("What is only a warning does not keep a configuration from being put to use, and is told with its outcome")
    func warnings() async throws {
        let key = ["upstreams", "api", "targets"]
        let warning = ConfigFinding(key: key, message: "old", suggestion: "renew it", isWarning: true)
        var bench = try ReloadFixture(checks: [warning])
        await bench.handle(.signal)
        #expect(bench.outcomes == [[]])
        let told = bench.gateway.outcomes.flatMap(\.warnings)
        #expect(told.count == 1)
        #expect(told.allSatisfy { $0.hasSuffix("cloakroom.yaml:3:19: warning: upstreams.api.targets: old (renew it)") })
    }

    @Test("A secret that changes in its file is a change, also where a link is swapped as Kubernetes does")
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
        #expect(bench.outcomes == [])
        try link("two")
        await bench.settle()
        await bench.settle()
        #expect(bench.outcomes == [[]])
        #expect(bench.gateway.plannedResponses.map { $0.upstreams[0].apiToken?.value } == [Secret("second")])
        // A file that comes to be where it was missed is found without the configuration changing.
        try bench.write(ReloadFixture.yaml(token: "valueFile: later"))
        await bench.settle()
        #expect(bench.gateway.outcomes.last?.isSuccess == false)
        try bench.write("third\n", to: "later")
        await bench.settle()
        #expect(bench.gateway.outcomes.last?.isSuccess == true)
        #expect(!bench.outcomes.description.contains("third"))
        #expect(bench.gateway.plannedResponses.last?.upstreams[0].apiToken?.value == Secret("third"))
    }

    @Test("Triggers are answered one after the other, in their order")
    func serialized() async throws {
        let directory = try TemporaryDirectory()
        try directory.write(ReloadFixture.yaml(), to: "cloakroom.yaml")
        let sources = ConfigSources(file: directory.path(of: "cloakroom.yaml"))
        let running = try ConfigFileSnapshot.read(sources)
        let (triggers, trigger) = AsyncStream<ReloadTrigger>.makeStream()
        let gateway = FakeGateway()
        let service = ReloadService(
            sources: sources, running: running,
            state: ReloadState(sources, running: running, now: Timestamp(milliseconds: 1)), triggers: triggers,
            now: { Timestamp(milliseconds: 2) },
            apply: { configuration in
                // An attempt that takes its time; the next one waits for its end.
                for _ in 0..<100 { await Task.yield() }
                #expect(gateway.plannedResponses.count == gateway.outcomes.count)
                try gateway.apply(configuration)
            }, onOutcome: { gateway.note($0) })
        for next in [ReloadTrigger.signal, .poll, .signal, .signal] { trigger.yield(next) }
        trigger.finish()
        await service.run()
        #expect(gateway.outcomes.map(\.trigger) == [.signal, .signal, .signal])
        #expect(gateway.plannedResponses.count == 3)
    }
}
