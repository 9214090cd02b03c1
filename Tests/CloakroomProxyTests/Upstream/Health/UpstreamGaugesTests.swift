import CloakroomCore
import CloakroomTelemetry
import NIOCore
import TestSupport
import Testing

@testable import CloakroomProxy

private let second: UInt64 = 1_000_000_000

@Suite("Which series of upstreams are exposed")
struct UpstreamGaugesTests {
    private func lines(_ config: ConfigSnapshot, _ family: String) -> [String] {
        String(decoding: config.telemetry.registry.exposition(), as: UTF8.self).split(separator: "\n").map(String.init)
            .filter { $0.hasPrefix("cloakroom_upstream_\(family){") }
    }

    private func peers(_ config: ConfigSnapshot) -> [String] {
        lines(config, "in_flight").compactMap { $0.split(separator: "\"").dropFirst().first.map(String.init) }.map {
            $0 == ",target=" ? "" : $0
        }
    }

    private func address(_ number: Int) throws -> SocketAddress {
        try SocketAddress(ipAddress: "127.0.0.\(number)", port: 80)
    }

    @Test("A host name is exposed as one peer until its addresses are; a removed address is withdrawn, counters stay")
    func names() async throws {
        let names = FakeNames([try address(1), try address(2)])
        let config = try GatewaySetup().with(\.resolver, names.resolver)
            .configuration { $0.upstreams[0].dns.keep = .zero }
            .targets(.http("api.test", 80)).makeConfig()
        let upstream = config.upstreams[0]
        var gauges = UpstreamGauges()
        gauges.update(upstream, now: second)
        expect(peers(config), equals: [""])
        upstream.targetMetrics[0].connects[.success]?.increment()
        let name = try require(upstream.targets.targets.targets.first)
        // A request through the name is still in flight.
        name.state.started(now: second)
        upstream.targets.established(name, at: try address(1))
        await expect(upstream.targets.resolve(now: 2 * second))
        gauges.update(upstream, now: 2 * second)
        expect(peers(config), equals: ["", "127.0.0.1:80", "127.0.0.2:80"])
        let draining = #"peer="",state="draining",target="http://api.test:80",upstream="api"} 1"#
        expect(lines(config, "state").contains { $0.hasSuffix(draining) })
        name.state.ended(owesHead: true)
        _ = upstream.targets.board.tick(now: 3 * second, random: 0)
        gauges.update(upstream, now: 3 * second)
        expect(peers(config), equals: ["127.0.0.1:80", "127.0.0.2:80"])
        expect(lines(config, "state").count == 12 && lines(config, "estimate_seconds").count == 2)
        names.change(to: [try address(2)])
        await expect(upstream.targets.resolve(now: 60 * second))
        _ = upstream.targets.board.tick(now: 60 * second, random: 0)
        gauges.update(upstream, now: 60 * second)
        expect(peers(config), equals: ["127.0.0.2:80"])
        expect(lines(config, "connects_total").contains { $0.contains("success") && $0.hasSuffix(" 1") })
        expect(lines(config, "dns_age_seconds").count, equals: 1)
    }

    @Test("The series of a target that is no longer configured are withdrawn after its last request")
    func removedTarget() throws {
        let config = try GatewaySetup().targets(.http("127.0.0.1", 1), .http("api.test", 80)).makeConfig()
        let old = config.upstreams[0]
        var gauges = UpstreamGauges()
        gauges.update(old, now: second)
        expect(lines(config, "in_flight").count == 2 && lines(config, "dns_age_seconds").count == 1)
        let gone = old.targets.targets.targets[1].state
        gone.started(now: second)
        var configuration = old.configuration
        configuration.targets.removeLast()
        let targets = try UpstreamTargets(configuration, adopting: old.targets, logger: RecordedLog().logger)
        let new = UpstreamRuntime(configuration, targets, firstTarget: 0, metrics: config.telemetry.metrics)
        targets.activate(now: second)
        for (time, count) in [(2, 2), (3, 1)] as [(UInt64, Int)] {
            if time == 3 { gone.ended(owesHead: true) }
            _ = targets.board.tick(now: time * second, random: 0)
            gauges.update(new, now: time * second)
            expect(lines(config, "in_flight").count, equals: count)
            for family in ["ejections_total", "checks_total", "connects_total", "state"] {
                let isExposed = lines(config, family).contains { $0.contains("api.test") }
                expect(isExposed, equals: count == 2, "\(family) at \(time) s")
            }
            expect(empty: lines(config, "dns_age_seconds"))
        }
    }

    @Test("Beyond 256 addresses in the process there are no series, which is logged once per upstream")
    func manyAddresses() async throws {
        let names = FakeNames(try (1...200).map { try address($0) })
        let config = try GatewaySetup().with(\.resolver, names.resolver).targets(.http("api.test", 80)).configuration {
            var other = $0.upstreams[0]
            other.name = "other"
            $0.upstreams.append(other)
        }.makeConfig()
        let log = RecordedLog()
        var reporter = UpstreamReporter(log.logger)
        var gauges = UpstreamGauges()
        for upstream in config.upstreams {
            for target in upstream.targets.targets.targets { upstream.targets.established(target, at: try address(1)) }
            await expect(upstream.targets.resolve(now: second))
        }
        for now in [2 * second, 200 * second] {
            expect(gauges.update(config.upstreams[0], now: now), equals: 0)
            let hidden = gauges.update(config.upstreams[1], now: now)
            expect(hidden, equals: 144)
            reporter.addressesHidden(hidden, of: config.upstreams[1], now: now)
        }
        expect(lines(config, "in_flight").count, equals: 256)
        expect(log.all.map { $0["event"] }, equals: ["upstream_addresses_hidden"])
        expect(log.all.first?["count"] == "144" && log.all.first?["upstream"] == "other")
    }

    @Test("An upstream that is no longer configured leaves no series")
    func removedUpstream() throws {
        let config = try GatewaySetup().targets(.http("127.0.0.1", 1), .http("api.test", 80)).makeConfig()
        var gauges = UpstreamGauges()
        gauges.update(config.upstreams[0], now: second)
        gauges.withdraw(config.upstreams[0])
        let text = String(decoding: config.telemetry.registry.exposition(), as: UTF8.self)
        let left = text.split(separator: "\n").filter { $0.contains(#"upstream="api""#) }
        expect(empty: left, "\(left)")
    }

    @Test("Permits of the common half are either in use or available")
    func permits() throws {
        let config = try GatewaySetup().configuration {
            $0.upstreams[0].pool.maxConnections = 11
            $0.eventLoops = 2
        }.makeConfig()
        let upstream = config.upstreams[0]
        var gauges = UpstreamGauges()
        // Two are guaranteed to each of the two loops.
        var ledger = PermitLedger(upstream.targets.permits.connections, loop: 0)
        let taken = (0..<5).filter { _ in ledger.take() }
        expect(taken.count, equals: 5)
        gauges.update(upstream, now: second)
        expect(
            lines(config, "permits"),
            equals: [
                #"cloakroom_upstream_permits{kind="available",upstream="api"} 4"#,
                #"cloakroom_upstream_permits{kind="common",upstream="api"} 3"#,
            ])
    }
}
