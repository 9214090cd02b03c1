import Foundation
import Testing

@testable import cloakroom

/// What the model predicts from figures that make the results easy to compute.
@Suite("The capacity model")
struct CapacityModelTests {
    private static func cost(
        _ gateway: Double, _ server: Double = 0, _ to: Double = 0, _ from: Double = 0, idle: Double = 1
    ) -> OperationCost {
        OperationCost(
            gatewayMicroseconds: gateway, gatewayIdleMicroseconds: gateway * idle, serverMicroseconds: server,
            serverIdleMicroseconds: server * idle, bytesToServer: to, bytesFromServer: from)
    }

    static let figures = CapacityFigures(
        request: cost(20), lookUp: cost(80, 10, 170, 900), lookUpAgain: cost(70, 8, 60, 900),
        providerLookUp: cost(90, 12, 60, 2_000),
        touch: cost(30, 15, 150, 5), refresh: cost(500, 100, 1_500, 100), signIn: cost(800, 130, 1_600, 1_900),
        signOut: cost(400, 90, 400, 1_800), login: cost(5_000, 200, 2_600, 3_600),
        gatewayBytes: 20e6, gatewayBytesPerPasswordSession: 1_000,
        gatewayBytesPerProviderSession: 3_000, serverBytes: 10e6,
        serverBytesPerPasswordSession: 1_600, serverBytesPerProviderSession: 2_600, serverBytesPerTrackedKey: 100,
        serverBytesPerFurtherGateway: 10)

    private func model(_ demand: CapacityDemand) -> CapacityModel {
        CapacityModel(demand: demand, figures: Self.figures)
    }

    private func isClose(_ value: Double, _ expected: Double, _ share: Double = 0.001) -> Bool {
        abs(value - expected) <= abs(expected) * share
    }

    @Test("counts the operations of a second")
    func rates() {
        // Each session has one request per second for about eleven days.
        let model = model(
            CapacityDemand(
                users: 1_000_000, requestsPerSecond: 1_000_000, sessionLength: 1_000_000, idleTimeout: 800,
                tokenLifetime: 300, gateways: 1, cacheSize: 10_000_000))
        let rates = model.rates
        #expect(rates.requests == 1_000_000)
        #expect(rates.signIns == 1)
        // An eighth of the idle timeout, and one second until the next request.
        #expect(isClose(rates.touches, 1_000_000 / 101))
        // The last 60 s of the lifetime, and on average 6 s before.
        #expect(isClose(rates.refreshes, 1_000_000 / 235))
        // With one gateway, only refreshes and ends remove a session that is cached.
        let changes = 1 / 235.0 + 1 / 1_000_000.0
        #expect(isClose(rates.lookUps, 1_000_000 * changes / (1 + changes)))
    }

    @Test("several gateways read a session again after another one has written its use; sticky sessions are not")
    func severalGateways() {
        var demand = CapacityDemand(
            users: 1_000, requestsPerSecond: 1_000, sessionLength: 1_000_000, idleTimeout: 80, tokenLifetime: 0,
            gateways: 4)
        let spread = model(demand)
        // Each gateway has a quarter of the requests. A use is written each 11 s, and sent by each of the three others too
        // if it has a request in the part of a second until then.
        #expect(isClose(spread.rates.touches, 1_000 / 11))
        #expect(isClose(spread.rates.repeatedTouches, 3_000 * (1 - (1 - exp(-0.25)) / 0.25) / 11))
        let changes = 0.75 / 11 + 1 / 1_000_000
        #expect(isClose(1 - spread.hitRatio, changes / (0.25 + changes)))
        demand.isSticky = true
        let sticky = model(demand)
        #expect(sticky.rates.lookUps < 0.01)
        #expect(isClose(sticky.rates.touches, 1_000.0 / 11))
        #expect(sticky.cachedSessions == 250)
        #expect(spread.cachedSessions == 1_000)
    }

    @Test("reads sessions for which a gateway has no room")
    func smallCache() {
        let model = model(
            CapacityDemand(
                users: 400_000, requestsPerSecond: 100_000, tokenLifetime: 0, gateways: 1, cacheSize: 100_000))
        #expect(model.hitRatio == 0.25)
        #expect(model.rates.lookUps == 75_000)
        #expect(model.gateway.memoryBytes == 20e6 + 100_000 * 1_000)
    }

    @Test("has refreshes and uses only with requests, and no refreshes without expiry")
    func idle() {
        let quiet = model(CapacityDemand(users: 1_000, requestsPerSecond: 0))
        #expect(
            quiet.rates
                == CapacityRates(
                    requests: 0, signIns: 1_000.0 / 28_800, lookUps: 0, touches: 0, repeatedTouches: 0, refreshes: 0))
        #expect(quiet.gateway.cores > 0)
        let lasting = model(CapacityDemand(users: 1_000, requestsPerSecond: 100, tokenLifetime: 0))
        #expect(lasting.rates.refreshes == 0)
    }

    @Test("shorter sessions have fewer refreshes and uses than long ones")
    func shortSessions() {
        func rates(_ length: Double) -> CapacityRates {
            model(CapacityDemand(users: 1_000, requestsPerSecond: 1_000, sessionLength: length)).rates
        }
        #expect(rates(200).refreshes < rates(28_800).refreshes * 0.6)
        #expect(rates(200).touches < rates(28_800).touches)
        #expect(rates(200).signIns == 5)
    }

    @Test("adds up CPU time and bytes, and divides them among gateways and shards")
    func needs() {
        let demand = CapacityDemand(
            users: 300_000, requestsPerSecond: 30_000, gateways: 3, shards: 2, cacheSize: 1_000_000)
        let model = model(demand)
        let rates = model.rates
        let touches = rates.touches + rates.repeatedTouches
        // All look-ups but the first one of each session at each gateway.
        let again = rates.lookUps - rates.signIns * 3
        let cores =
            rates.requests * 20 + rates.lookUps * 80 - again * 10 + touches * 30 + rates.refreshes * 500
            + rates.signIns * 1_200
        #expect(isClose(model.gateway.cores, cores / 1e6 / 3))
        let server = rates.lookUps * 10 - again * 2 + touches * 15 + rates.refreshes * 100 + rates.signIns * 220
        #expect(isClose(model.shard.cores, server / 1e6 / 2))
        let sent =
            rates.lookUps * 170 - again * 110 + touches * 150 + rates.refreshes * 1_500 + rates.signIns * 2_000
        #expect(isClose(model.gateway.bytesToServers, sent / 3))
        #expect(isClose(model.shard.bytesToServers, sent / 2))
        #expect(isClose(model.shard.bytesFromServers, model.gateway.bytesFromServers * 1.5))
        // Each session is cached at all three gateways, with five keys.
        let tracking = 150_000 * 500.0 + 300_000 * 50.0
        #expect(model.shard.memoryBytes == 10e6 + 150_000 * 1_600.0 + tracking)
    }

    @Test("a process that is mostly idle needs more CPU time for the same work")
    func lowLoad() {
        var demand = CapacityDemand(users: 1_000, requestsPerSecond: 1_000, tokenLifetime: 0, gateways: 1)
        var figures = Self.figures
        figures.request = Self.cost(20, 100, idle: 5)
        func cores() -> (gateway: Double, shard: Double) {
            let (full, idle) = (model(demand), CapacityModel(demand: demand, figures: figures))
            let requests = demand.requestsPerSecond
            // Whatever else is done costs the same.
            let ours = full.gateway.cores + (1 - idle.gateway.cores / idle.eventLoops) * requests * 80e-6
            #expect(isClose(idle.gateway.cores, ours))
            let others = full.shard.cores + requests * 100e-6
            let wakeUps = (1 - idle.gateway.cores / idle.eventLoops) * requests * 400e-6
            if others < 1 { #expect(isClose(idle.shard.cores, others + (1 - idle.shard.cores) * wakeUps)) }
            #expect(isClose(idle.shards(busyFor: 0.5), (others + 0.5 * wakeUps) / 0.5))
            return (idle.gateway.cores, idle.shard.cores)
        }
        // Almost all requests find the gateway idle.
        let low = cores()
        #expect((0.085...0.1).contains(low.gateway) && low.shard < 0.4)
        demand.requestsPerSecond = 8_000
        let high = cores()
        #expect(high.gateway < low.gateway * 7 && high.shard < low.shard * 7)
        // More than one core: the event loops are idle for three tenths of the time.
        demand.requestsPerSecond = 1_000_000
        #expect(isClose(cores().gateway / 44.1, 1, 0.03))
    }

    @Test("a gateway has as many event loops as are busy for at most 70 % of the time")
    func eventLoops() {
        let demand = CapacityDemand(users: 1_000, requestsPerSecond: 0, tokenLifetime: 0, gateways: 1)
        #expect(model(demand).eventLoops == 1)
        var busy = demand
        busy.requestsPerSecond = 34_000
        #expect(model(busy).eventLoops == 1 && model(busy).gateway.cores < 0.7)
        busy.requestsPerSecond = 36_000
        #expect(model(busy).eventLoops == 2)
        #expect(isClose(model(busy).gateway.cores, 0.72, 0.01))
    }

    @Test("takes the figures of providers for their sessions")
    func provider() {
        var demand = CapacityDemand(users: 100_000, requestsPerSecond: 1_000)
        let password = model(demand)
        demand.signIn = .provider
        let provider = model(demand)
        #expect(provider.rates == password.rates)
        #expect(provider.gateway.memoryBytes == 20e6 + 100_000 * 3_000)
        // One more key is tracked, for two gateways.
        #expect(provider.shard.memoryBytes - password.shard.memoryBytes == 100_000 * 1_110)
        let more = (5_000.0 - 800) * provider.rates.signIns + 10 * provider.rates.lookUps
        #expect(isClose((provider.gateway.cores - password.gateway.cores) * 2, more / 1e6))
    }
}

/// The figures that are built in, and files of figures.
@Suite("The figures of the capacity model")
struct CapacityFiguresTests {
    @Test("are those of Benchmarks/capacity.json")
    func measured() throws {
        var file = URL(filePath: #filePath)
        for _ in 0..<4 { file.deleteLastPathComponent() }
        let data = try Data(contentsOf: file.appending(path: "Benchmarks/capacity.json"))
        #expect(try #require(CapacityFigures(file: data)) == CapacityFigures.measured)
    }

    @Test("of a file without a figure, with a negative one, or of another kind are rejected")
    func invalid() throws {
        let document = ["model": CapacityModelTests.figures]
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let text = String(decoding: try encoder.encode(document), as: UTF8.self)
        #expect(CapacityFigures(file: Data(text.utf8)) == CapacityModelTests.figures)
        for (old, new) in [
            ("serverBytes\":", "serverByte\":"), ("\"signOut\":{", "\"signOut\":{\"x\":1,"), (":20,", ":-20,"),
            // A number of cores that is no Int.
            (":20,", ":1e300,"),
            // Less for an idle process than for a busy one.
            ("gatewayIdleMicroseconds\":20", "gatewayIdleMicroseconds\":19"),
        ] {
            #expect(text.contains(old))
            let changed = CapacityFigures(file: Data(text.replacing(old, with: new).utf8))
            #expect(changed == (new.contains("\"x\"") ? CapacityModelTests.figures : nil))
        }
        #expect(CapacityFigures(file: Data("[]".utf8)) == nil)
        #expect(CapacityFigures(file: Data()) == nil)
    }
}

/// The output of `cloakroom capacity`.
@Suite("The capacity report")
struct CapacityReportTests {
    private func report(_ demand: CapacityDemand) -> CapacityReport {
        CapacityReport(CapacityModel(demand: demand, figures: CapacityModelTests.figures))
    }

    @Test("is a table of rates and one of needs, and has no advice if there is none")
    func text() {
        let text = report(
            CapacityDemand(users: 28_800, requestsPerSecond: 0, gateways: 1, cacheSize: 100_000)
        ).text
        #expect(
            text == """
                operations per second
                  requests               0.0
                    not cached           0.0
                  sign-ins               1.0
                  sign-outs              1.0
                  refreshes              0.0
                  uses written           0.0

                                           cores        memory    to servers  from servers
                each gateway of 1           0.00       48.8 MB      2.0 kB/s      3.7 kB/s
                each shard of 1             0.00       70.5 MB      2.0 kB/s      3.7 kB/s

                """)
    }

    @Test("advises on shards, on the local table, on tracked keys and on event loops")
    func advice() {
        let advice = report(
            CapacityDemand(
                users: 10_000_000, requestsPerSecond: 1_000_000, gateways: 10, shards: 3, cacheSize: 5_000_000)
        ).advice
        #expect(advice.count == 4)
        #expect(advice[0].hasPrefix("A shard is busy") && advice[0].hasSuffix(" shards."))
        #expect(advice[1].contains("at most 5,000,000 of 10,000,000 sessions"))
        #expect(advice[2].contains("tracking-table-max-keys to 22,000,000"))
        #expect(advice[3].contains("event loops"))
    }

    @Test("does not advise more shards than a gateway supports")
    func tooManyShards() {
        let advice = report(
            CapacityDemand(
                users: 1_000_000_000, requestsPerSecond: 100_000_000, gateways: 10_000,
                shards: CapacityDemand.mostShards)
        ).advice
        #expect(advice[0].contains("a gateway supports 128") && advice[0].contains("several clusters"))
    }

    @Test("is JSON with stable keys")
    func json() throws {
        let text = try report(CapacityDemand(users: 1_000, requestsPerSecond: 100)).json()
        let document = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
        #expect(Set(document.keys) == ["rates", "hitRatio", "gateway", "shard", "advice"])
        let rates = try #require(document["rates"] as? [String: Double])
        #expect(Set(rates.keys) == ["requests", "signIns", "lookUps", "touches", "repeatedTouches", "refreshes"])
        let shard = try #require(document["shard"] as? [String: Double])
        #expect(Set(shard.keys) == ["cores", "memoryBytes", "bytesToServers", "bytesFromServers"])
        #expect(text.hasSuffix("}\n"))
    }

    @Test("has sizes with decimal units and numbers with commas")
    func units() {
        #expect(CapacityReport.size(999) == "999 B")
        #expect(CapacityReport.size(1_500) == "1.5 kB")
        #expect(CapacityReport.size(2.25e9) == "2.2 GB")
        #expect(CapacityReport.number(99.9) == "99.9")
        #expect(CapacityReport.number(1_234_567.6) == "1,234,568")
    }
}
