import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Rate limits that gateways share")
struct RateLimitStorageTests {
    private static let second: UInt64 = 1_000_000_000
    private static let key: UInt64 = 77 << 40
    private let store = SteppedRateStore()

    private static func limit(
        _ count: Int = 60, _ period: RequestRate.Period = .minute, burst: Int? = 20, isShared: Bool = true
    ) -> RateLimit {
        var limit = RateLimit(name: "few")
        limit.requests = RequestRate(count, per: period)
        limit.givenBurst = burst
        limit.isShared = isShared
        return limit
    }

    private struct Gateway {
        let storage: RateLimitStorage
        let table: RateLimitTable
        let buckets: RateBuckets

        init(_ store: SteppedRateStore, _ limit: RateLimit) {
            storage = RateLimitStorage(store: store)
            table = storage.table(keys: 1_024)
            buckets = RateBuckets(limit, storage: storage)
        }

        /// The number of permitted requests of several at once.
        func permitted(_ count: Int, of key: UInt64 = RateLimitStorageTests.key, now: UInt64) -> Int {
            (0..<count).count { _ in buckets.charge(key, in: table, now: now).wait == 0 }
        }

        @discardableResult
        func settle(now: UInt64) async throws -> Bool {
            try await storage.settle([buckets], in: table, now: { now })
        }
    }

    /// Several gateways with one client, which sends to all of them. Each settles every 100 ms, at a time of its own.
    private struct Fleet {
        let store = SteppedRateStore()
        let gateways: [Gateway]
        private let phases: [Int]
        private(set) var now = 1_000 * RateLimitStorageTests.second
        private var generator: SeededGenerator
        private static let step = 20

        init(_ count: Int, _ limit: RateLimit, seed: UInt64) {
            gateways = (0..<count).map { [store] _ in Gateway(store, limit) }
            var generator = SeededGenerator(seed: seed)
            phases = gateways.map { _ in Int.random(in: 0..<5, using: &generator) }
            self.generator = generator
        }

        /// - Parameter offered: The maximum number of requests in 20 ms at each gateway; on average half of it is sent.
        /// - Returns: The number of permitted requests.
        mutating func run(seconds: Double, offered: Int = 4) async throws -> Int {
            var permitted = 0
            for step in 0..<Int(seconds * 1_000) / Self.step {
                for (gateway, phase) in zip(gateways, phases) {
                    permitted += gateway.permitted(Int.random(in: 0...offered, using: &generator), now: now)
                    if step % 5 == phase { _ = try? await gateway.settle(now: now) }
                }
                now += UInt64(Self.step) * 1_000_000
                store.advance(UInt64(Self.step) * 1_000_000)
            }
            return permitted
        }
    }

    @Test(
        "Rule 103: a flood at three gateways gets one burst at each, and then nothing until they are paid for",
        arguments: 1...3 as ClosedRange<UInt64>)
    func debt(seed: UInt64) async throws {
        var fleet = Fleet(3, Self.limit(), seed: seed)
        _ = try await fleet.run(seconds: 2, offered: 0)
        let now = fleet.now
        expect(fleet.gateways.map { $0.permitted(30, now: now) }, equals: [20, 20, 20])
        // A gateway that settled before the others have does not know of their requests until its next one.
        let few = try await fleet.run(seconds: 10)
        #expect(few <= 3)
        // One gateway alone would have permitted 80 requests by then.
        let more = try await few + fleet.run(seconds: 50)
        expect((18...24).contains(more), "\(more) instead of 20")
    }

    @Test("In the long run gateways permit together what one of them would", arguments: 1...2 as ClosedRange<UInt64>)
    func agreement(seed: UInt64) async throws {
        var slow = Fleet(8, Self.limit(), seed: seed)
        _ = try await slow.run(seconds: 2, offered: 0)
        let five = try await slow.run(seconds: 300)
        expect((312...330).contains(five), "\(five) instead of 320")
        // Three times the rate is offered. The burst is 600.
        var fast = Fleet(3, Self.limit(100, .second, burst: nil), seed: seed)
        let ten = try await fast.run(seconds: 10)
        expect((1_580...1_650).contains(ten), "\(ten) instead of 1600")
        // The burst takes less time than a period of settlement.
        var short = Fleet(3, Self.limit(500, .second, burst: 20), seed: seed)
        _ = try await short.run(seconds: 2, offered: 40)
        let two = try await short.run(seconds: 20, offered: 40)
        expect((9_800...10_200).contains(two), "\(two) instead of 10000")
    }

    @Test(
        "Rule 102: without the store each gateway permits its part, and all agree again when it is back",
        arguments: 1...3 as ClosedRange<UInt64>)
    func outage(seed: UInt64) async throws {
        var fleet = Fleet(3, Self.limit(), seed: seed)
        _ = try await fleet.run(seconds: 60)
        fleet.store.setAway(true)
        // It may be a short failure.
        let before = try await fleet.run(seconds: 2)
        #expect(before <= 9)
        let during = try await fleet.run(seconds: 60)
        expect((45...63).contains(during), "\(during) instead of 60")
        fleet.store.setAway(false)
        _ = try await fleet.run(seconds: 60)
        let after = try await fleet.run(seconds: 60)
        expect((57...63).contains(after), "\(after) instead of 60")
    }

    @Test(
        "A client within a limit with a burst of one request is not rejected", arguments: [1, 10, 100],
        [60, 90] as [UInt64])
    func withinLimit(rate: Int, percent: UInt64) async throws {
        let gateway = Gateway(store, Self.limit(rate, .second, burst: 1))
        let step = Self.second * 100 / (UInt64(rate) * percent)
        var (settled, permitted) = (Self.second, 0)
        for number in 1...1_000 as ClosedRange<UInt64> {
            let now = Self.second + number * step
            // A settlement begins 100 ms after the one before has ended, which takes 2 ms.
            while settled + Self.second * 51 / 500 <= now {
                settled += Self.second * 51 / 500
                store.advance(Self.second * 51 / 500)
                try await gateway.settle(now: settled)
            }
            permitted += gateway.permitted(1, now: now)
        }
        #expect(permitted >= 980, "\(permitted) of 1000")
    }

    @Test("What the store did not confirm is never charged again")
    func forgotten() async throws {
        let gateway = Gateway(store, Self.limit())
        expect(gateway.permitted(5, now: Self.second), equals: 5)
        store.setAway(true)
        await #expect(throws: SessionStoreError.self) { try await gateway.settle(now: Self.second) }
        store.setAway(false)
        // Only the gateway is reported.
        try await expect(gateway.settle(now: Self.second))
        expect(empty: store.keys)
        expect(gateway.permitted(20, now: Self.second), equals: 15)
    }

    @Test(
        "Rule 102: while a key cannot be settled, each gateway permits its part, although other keys are settled",
        arguments: [false, true])
    func partialFailure(hasOthers: Bool) async throws {
        let fleet = Fleet(2, Self.limit(60, burst: 2), seed: 1)
        let other: UInt64 = 99 << 40
        var now = Self.second
        func run(_ seconds: Int) async throws -> Int {
            var permitted = 0
            for step in 0..<seconds * 10 {
                for gateway in fleet.gateways {
                    if step % 2 == 0 { permitted += gateway.permitted(1, now: now) }
                    if hasOthers { _ = gateway.permitted(1, of: other, now: now) }
                    _ = try? await gateway.settle(now: now)
                }
                now += Self.second / 10
                fleet.store.advance(Self.second / 10)
            }
            return permitted
        }
        _ = try await run(10)
        fleet.store.setFailing(Self.key | 64)
        _ = try await run(4)
        let during = try await run(60)
        expect((56...64).contains(during), "\(during) instead of 60")
        fleet.store.setFailing(nil)
        _ = try await run(10)
        let after = try await run(60)
        expect((56...64).contains(after), "\(after) instead of 60")
    }

    @Test("What a store that fails in part has replied delays its keys")
    func partialReply() async throws {
        let fleet = Fleet(2, Self.limit(), seed: 1)
        for gateway in fleet.gateways { expect(gateway.permitted(20, now: Self.second), equals: 20) }
        expect(fleet.gateways[1].permitted(1, of: 99 << 40, now: Self.second), equals: 1)
        fleet.store.setFailing(99 << 40 | 64)
        try await fleet.gateways[0].settle(now: Self.second)
        await #expect(throws: SessionStoreError.self) { try await fleet.gateways[1].settle(now: Self.second) }
        expect(fleet.gateways[1].permitted(1, now: 3 * Self.second), equals: 0)
    }

    @Test("A request that another limit rejects is not settled, nor are limits that are not shared")
    func nothing() async throws {
        let gateway = Gateway(store, Self.limit())
        expect(gateway.permitted(1, now: Self.second), equals: 1)
        gateway.buckets.refund(Self.key, in: gateway.table, now: Self.second)
        try await expect(gateway.settle(now: Self.second))
        try await expect(gateway.settle(now: Self.second), equals: false)
        expect(empty: store.keys)
        expect(gateway.permitted(30, now: Self.second), equals: 20)
        expect(!Gateway(store, Self.limit(isShared: false)).buckets.areShared)
        let storage = RateLimitStorage()
        let single = RateBuckets(Self.limit(), storage: storage)
        expect(!single.areShared)
        try await expect(storage.settle([single], in: gateway.table, now: { 1 }), equals: false)
    }

    @Test("A charge that is taken back while the store is away leaves nothing")
    func refundOfPart() async throws {
        let fleet = Fleet(3, Self.limit(burst: 3), seed: 1)
        for time in [UInt64(2), 4] {
            for gateway in fleet.gateways { try await gateway.settle(now: time * Self.second) }
        }
        let (gateway, now) = (fleet.gateways[0], 9 * Self.second)
        for _ in 0..<5 {
            expect(gateway.permitted(2, now: now), equals: 1)
            gateway.buckets.refund(Self.key, in: gateway.table, now: now)
        }
    }

    @Test("A settlement has at most 2048 keys: those with the most requests; others are forgotten")
    func bound() async throws {
        let storage = RateLimitStorage(store: store)
        let table = storage.table(keys: 65_536)
        let limits = (0..<3).map { _ in RateBuckets(Self.limit(), storage: storage) }
        var generator = SeededGenerator(seed: 3)
        for limit in limits {
            for _ in 0..<5 { _ = limit.charge(Self.key, in: table, now: 1) }
            for _ in 0..<5_000 { _ = limit.charge(generator.next(), in: table, now: 1) }
        }
        try await expect(storage.settle(limits, in: table, now: { 1 }))
        expect(store.largest, equals: 2_048)
        expect(store.keys.contains(Self.key | 64))
        expect(store.charged, equals: (2_045 + 15) * Self.second)
    }

    @Test("A wrong reply delays a key by no more than all gateways may permit in advance, and overflows nothing")
    func wrongReply() async throws {
        store.setReply(.max)
        let gateway = Gateway(store, Self.limit())
        expect(gateway.permitted(1, now: Self.second), equals: 1)
        try await gateway.settle(now: Self.second)
        let charge = gateway.buckets.charge(Self.key, in: gateway.table, now: Self.second)
        expect(charge.used, equals: 2 * (20 * Self.second + Self.second / 5))
        let largest = Gateway(store, Self.limit(1, .hour, burst: 100_000))
        expect(largest.permitted(9, now: 1 << 62), equals: 9)
        try await largest.settle(now: 1 << 62)
        expect(largest.permitted(1, now: 1 << 62), equals: 0)
    }
}
