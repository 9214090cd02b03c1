import Glibc
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("File descriptors")
struct FileDescriptorLimitTests {
    private func configuration(_ connections: Int, _ pools: [Int]) -> GatewayConfiguration {
        GatewayConfiguration(
            listeners: [],
            upstreams: pools.enumerated().map { index, limit in
                UpstreamConfiguration(
                    name: "\(index)", targets: [.http("127.0.0.1", 9)],
                    pool: PoolConfiguration(maxConnections: limit))
            }, routes: [], limits: LimitsConfiguration(connections: connections))
    }

    @Test(
        "A reserve is set aside, and pools have at most half of the rest or what client connections cannot use",
        arguments: [
            (1_024, 268, 20_000, 2_048, 378, 378), (1_024, 268, 20_000, 100, 656, 100),
            (1_024, 268, 100, 2_048, 100, 656), (20_000, 1_000, 20_000, 1_024, 17_976, 1_024),
            (20_000, 1_000, 20_000, 65_535, 9_500, 9_500), (1_048_576, 52_428, 20_000, 1_024, 20_000, 976_148),
            (76, 44, 20_000, 1_024, 16, 16),
        ])
    func budget(total: Int, reserve: Int, configured: Int, wanted: Int, connections: Int, pools: Int) {
        let limit = FileDescriptorLimit(total: total, cores: 2)
        expect(limit.reserve, equals: reserve)
        expect(
            limit.budget(for: configuration(configured, [wanted])),
            equals: DescriptorBudget(
                total: total, connections: connections, pools: pools, files: reserve / 2))
    }

    @Test("Connections and all pools together fit the descriptors, and a slow upstream leaves the others their share")
    func fitted() {
        let log = RecordedLog()
        let wanted = configuration(20_000, [1_024, 512, 1])
        let fitted = FileDescriptorLimit(total: 1_024, cores: 2).budget(for: wanted).fit(wanted, logger: log.logger)
        expect(fitted.limits.connections, equals: 378)
        expect(fitted.upstreams.map(\.pool.maxConnections), equals: [251, 125, 1])
        expect(log.lines("configured", "20000").count, equals: 1)
        expect(log.lines("configured", "1537").count, equals: 1)
        expect(log.all.map { $0["level"] }, equals: ["warning", "warning"])
    }

    @Test("A limit that is lowered by less than half is no warning")
    func lowered() {
        let log = RecordedLog()
        let wanted = configuration(20_000, [1_024])
        let fitted = FileDescriptorLimit(total: 20_000, cores: 2).budget(for: wanted).fit(wanted, logger: log.logger)
        expect(fitted.limits.connections, equals: 17_976)
        expect(log.lines("configured", "20000").map { $0["level"] }, equals: ["notice"])
    }

    @Test("A reload with more pools does not exceed the budget of the start")
    func reload() {
        let logger = RecordedLog().logger
        let budget = FileDescriptorLimit(total: 1_024, cores: 2).budget(for: configuration(20_000, [100]))
        let fitted = budget.fit(configuration(20_000, [100, 100]), logger: logger)
        expect(fitted.limits.connections, equals: 656)
        expect(fitted.upstreams.map(\.pool.maxConnections), equals: [50, 50])
    }

    @Test("Limits that fit are not changed, and nothing is logged")
    func unchanged() {
        let log = RecordedLog()
        let wanted = configuration(20_000, [1_024, 1_024])
        let budget = FileDescriptorLimit(total: 65_536, cores: 2).budget(for: wanted)
        var fitted = wanted
        fitted.limits.openFiles = 1_638
        expect(budget.fit(wanted, logger: log.logger), equals: fitted)
        expect(empty: log.texts)
    }

    @Test("The pool of WebSockets to an upstream with HTTP/2 counts too")
    func tunnels() {
        var wanted = configuration(20_000, [100])
        wanted.upstreams[0].protocolVersion = .http2
        expect(FileDescriptorLimit(total: 1_024, cores: 2).budget(for: wanted).pools, equals: 200)
    }

    @Test("The process raises its descriptor limit to the hard limit")
    func raised() throws {
        let limit = try FileDescriptorLimit.raised()
        #expect(limit.total >= 256)
        try expect(FileDescriptorLimit.raised(), equals: limit)
        expect(limit.total, equals: sysconf(CInt(_SC_OPEN_MAX)))
    }
}
