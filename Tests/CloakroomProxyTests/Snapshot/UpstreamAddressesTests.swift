import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

private let second: UInt64 = 1_000_000_000

@Suite("Targets of host names")
struct UpstreamAddressesTests {
    private func address(_ number: Int) throws -> SocketAddress {
        try SocketAddress(ipAddress: "10.0.\(number / 256).\(number % 256)", port: 80)
    }

    private func targets(
        _ names: FakeNames, _ configured: [UpstreamTargetConfiguration] = [.http("api.test", 80)],
        health: HealthCheckConfiguration? = HealthCheckConfiguration(probe: .http(path: "/")),
        adopting old: UpstreamTargets? = nil
    ) throws -> UpstreamTargets {
        let configuration = UpstreamConfiguration(
            name: "api", targets: configured, dns: DNSConfiguration(keep: .zero), health: health)
        return try UpstreamTargets(
            configuration, adopting: old, resolver: names.resolver, logger: RecordedLog().logger)
    }

    /// A connection to each name was established, and its addresses are targets.
    private func expand(_ targets: UpstreamTargets, at now: UInt64 = second) async throws {
        for target in targets.targets.targets { targets.established(target, at: try address(1)) }
        await expect(targets.resolve(now: now))
    }

    private func addresses(_ targets: UpstreamTargets) -> [String] {
        targets.targets.targets.compactMap(\.state.identity.address)
    }

    @Test("With health checks, a new address gets no request before a check of it has passed")
    func newAddress() async throws {
        let names = FakeNames([try address(1)])
        let targets = try targets(names)
        try await expand(targets)
        names.change(to: [try address(1), try address(2)])
        await expect(targets.resolve(now: 60 * second))
        let new = try require(targets.targets.targets.last)
        expect(addresses(targets) == ["10.0.0.1", "10.0.0.2"] && new.state.word.isDown)
        var turn: UInt32 = 0
        for number in 0..<20 as Range<UInt64> {
            let random = number &* 0x9e37_79b9_7f4a_7c15
            let pick = TargetPicker.pick(targets.board.table, random: random, turn: &turn, now: 60 * second)
            if case .target(let choice) = pick { expect(targets.targets.targets[choice.first] !== new) }
        }
        targets.board.checked(new.state.identity, isUp: true, now: 60 * second)
        expect(new.state.word.isUsable)
    }

    @Test("Without health checks, a new address gets requests at once")
    func unchecked() async throws {
        let names = FakeNames([try address(1)])
        let targets = try targets(names, health: nil)
        try await expand(targets)
        names.change(to: [try address(1), try address(2)])
        await expect(targets.resolve(now: 60 * second))
        expect(targets.targets.targets.count == 2 && targets.targets.targets.allSatisfy { $0.state.word.isUsable })
    }

    @Test("The addresses of a name inherit its state: no panic if it is up", arguments: [true, false])
    func expansion(isUp: Bool) async throws {
        let names = FakeNames([try address(1), try address(2)])
        let targets = try targets(names)
        if !isUp {
            targets.board.checked(targets.targets.targets[0].state.identity, isUp: false, now: 0)
            _ = targets.board.tick(now: 0, random: 0)
        }
        try await expand(targets)
        expect(targets.targets.targets.map(\.state.word.isDown), equals: [!isUp, !isUp])
        let changes = targets.board.tick(now: second, random: 0)
        expect(!changes.contains(.panicStarted) && targets.board.isPanicking == !isUp)
    }

    @Test("A target added by a reload needs a passed check if the others are checked already")
    func addedTarget() throws {
        let names = FakeNames([])
        let checked = try targets(names, [.http("127.0.0.1", 1)])
        let more: [UpstreamTargetConfiguration] = [.http("127.0.0.1", 1), .http("127.0.0.1", 2)]
        let next = try targets(names, more, adopting: checked)
        next.activate(now: second)
        expect(next.targets.targets.map(\.state.word.isDown), equals: [false, true])
        // Checks that begin with the reload are a start, at which targets are up.
        let unchecked = try targets(names, [.http("127.0.0.1", 1)], health: nil)
        let first = try targets(names, more, adopting: unchecked)
        first.activate(now: second)
        expect(first.targets.targets.map(\.state.word.isDown), equals: [false, false])
        let without = try targets(names, more, health: nil, adopting: checked)
        without.activate(now: second)
        expect(without.targets.targets.map(\.state.word.isDown), equals: [false, false])
    }

    @Test("A response of DNS that arrives after a reload changes nothing")
    func late() async throws {
        let names = FakeNames([try address(1)])
        let old = try targets(names)
        try await expand(old)
        let state = old.targets.targets[0].state
        let gate = Gate()
        let slow = HostResolver { _, _ in
            let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
            let promise = eventLoop.makePromise(of: [SocketAddress].self)
            gate.whenOpen { promise.completeWith(Result { [try SocketAddress(ipAddress: "10.0.0.9", port: 80)] }) }
            return promise.futureResult
        }
        let configuration = old.configuration
        let middle = try UpstreamTargets(
            configuration, adopting: old, resolver: slow, logger: RecordedLog().logger)
        await expect(!middle.resolve(now: 60 * second), "not in effect yet")
        middle.activate(now: 60 * second)
        async let result = middle.resolve(now: 60 * second)
        // Other weights: the shared state must keep those of the latest configuration.
        var drained = configuration
        drained.targets[0].weight = 0
        let new = try UpstreamTargets(
            drained, adopting: middle, resolver: names.resolver, logger: RecordedLog().logger)
        try await Task.sleep(for: .milliseconds(50))
        new.activate(now: 60 * second)
        gate.open()
        let hasChanged = await result
        expect(!hasChanged)
        expect(addresses(middle) == ["10.0.0.1"] && addresses(new) == ["10.0.0.1"])
        expect(state.word.isDraining)
        expect(new.targets.targets[0].state === state)
    }

    @Test("A response of DNS between the preparation of a reload and its start is not lost")
    func between() async throws {
        let names = FakeNames([try address(1)])
        let old = try targets(names)
        let new = try targets(names, adopting: old)
        try await expand(old)
        expect(empty: addresses(new))
        new.activate(now: 2 * second)
        expect(addresses(new), equals: ["10.0.0.1"])
        expect(new.targets.targets[0].state === old.targets.targets[0].state)
        expect(new.addressAge(of: 0, now: 3 * second), equals: 2 * second)
    }

    @Test("Each configured target has an entry before a name with many addresses has several, also after a reload")
    func fairShares() async throws {
        let many = try (1...300).map { try address($0) }
        let names = FakeNames(many)
        let alone = try targets(names)
        try await expand(alone)
        expect(alone.targets.targets.count, equals: 256)
        let configured: [UpstreamTargetConfiguration] =
            [.http("api.test", 80)] + (1...62).map { .http("127.0.0.1", $0) } + [.http("other.test", 80)]
        let targets = try targets(names, configured, adopting: alone)
        targets.activate(now: second)
        var counts = configured.indices.map { index in targets.targets.targets.filter { $0.index == index }.count }
        expect(counts, equals: [193] + Array(repeating: 1, count: 63))
        for target in targets.targets.targets { targets.established(target, at: try address(1)) }
        await expect(targets.resolve(now: 60 * second))
        counts = configured.indices.map { index in targets.targets.targets.filter { $0.index == index }.count }
        expect(counts, equals: [97] + Array(repeating: 1, count: 62) + [97])
    }

    @Test("A name that is not resolved for 10 intervals is reported once, without scheme and port")
    func staleNames() async throws {
        let names = FakeNames([try address(1)])
        let config = try GatewaySetup().with(\.resolver, names.resolver)
            .targets(.http("api.test", 80), .http("api.test", 81)).makeConfig()
        let upstream = config.upstreams[0]
        for target in upstream.targets.targets.targets { upstream.targets.established(target, at: try address(1)) }
        await expect(upstream.targets.resolve(now: second))
        expect(upstream.status(now: 300 * second).staleNames, equals: [])
        expect(upstream.status(now: 302 * second).staleNames, equals: ["api.test"])
    }

    @Test("The age of a name is the time since the last response with addresses")
    func age() async throws {
        let names = FakeNames([try address(1)])
        let targets = try targets(names)
        expect(targets.addressAge(of: 0, now: second), equals: 0)
        try await expand(targets)
        names.breakDown()
        await expect(!targets.resolve(now: 100 * second))
        expect(targets.addressAge(of: 0, now: 101 * second), equals: 100 * second)
    }
}
