import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

@Suite("Shared rate limits at a server", .serialized, .timeLimit(.minutes(3)))
struct ValkeyRateLimitTests {
    private static let second: UInt64 = 1_000_000_000
    private static let programs = ["redis-server", RedisServer.Options.valkey]

    /// Long times, so that those that pass in the test do not matter.
    private static func debt(_ seconds: UInt64, of key: UInt64 = 7 << 40, most: UInt64 = 100_000) -> RateDebt {
        RateDebt(key: key, charge: seconds * second, most: most * second)
    }

    /// Seconds, rounded to thousands.
    private static func settle(_ replica: Replica, _ debts: RateDebt...) async throws -> [UInt64?] {
        await replica.records.settle(debts).ahead.map { ahead in ahead.map { ($0 / second + 500) / 1_000 * 1_000 } }
    }

    @Test("Requests of all gateways are added, up to what a key may be ahead, and the key expires", arguments: programs)
    func added(program: String) async throws {
        try await withReplicas(RedisServer.Options(program: program)) { a, b, server in
            try await expect(Self.settle(a, Self.debt(3_000)), equals: [3_000])
            try await expect(Self.settle(b, Self.debt(2_000), Self.debt(1_000, of: 8 << 40)), equals: [5_000, 1_000])
            try await expect(Self.settle(a, Self.debt(1_000, most: 4_000)), equals: [4_000])
            try await expect(Self.settle(b, Self.debt(1_000)), equals: [5_000])
            let key = a.records.keys.rate(7 << 40)
            if case .integer(4_900_000...5_001_000) = try await server.ask("PTTL", .text(key)) {
            } else {
                Issue.record("the key does not expire when its requests are paid for")
            }
            // The requests so far are paid for: as if there were no key.
            try await server.ask("HSET", .text(key), "t", "5")
            try await expect(Self.settle(a, Self.debt(2_000)), equals: [2_000])
            // A key that was at rest has sent its requests since the settlement before.
            await expect(a.records.settle([Self.debt(1, of: 9 << 40)]).ahead, equals: [900_000_000])
            let small = RateDebt(key: 10 << 40, charge: 90_000_000, most: 1 << 50)
            await expect(a.records.settle([small]).ahead, equals: [1_000])
            // The clock of a server that took over is behind.
            try await server.ask("HSET", .text(key), "t", "4000000000000000")
            try await expect(Self.settle(a, Self.debt(2_000, most: 9_000)), equals: [9_000])
        }
    }

    @Test("The results of 2048 keys are in their order, and no key is tracked")
    func many() async throws {
        try await withReplicas { a, b, server in
            let debts = (UInt64(1)...2_048).map { number in
                Self.debt(number * 1_000, of: number &* 0x9e37_79b9_7f4a_7c15, most: 9_000_000)
            }
            let expected = debts.map { $0.charge / Self.second }
            let first = await a.records.settle(debts).ahead.compactMap(\.self)
            expect(first.map { ($0 + 100_000_000) / Self.second }, equals: expected)
            let second = await b.records.settle(debts.reversed()).ahead.compactMap(\.self)
            expect(second.count, equals: debts.count)
            expect(zip(second.reversed(), debts).allSatisfy { $0 > $1.charge * 19 / 10 && $0 <= 2 * $1.charge })
            let lines = try await server.ask("INFO", "stats").text?.split(whereSeparator: \.isNewline) ?? []
            expect(lines.contains("tracking_total_keys:0"))
        }
    }

    @Test("If one key fails, those of the other slots are settled")
    func partialFailure() async throws {
        try await withReplicas { a, _, server in
            let slots = UInt64(0)..<16
            let debts = slots.map { Self.debt(3_000, of: $0 << 32 | 1) }
            try await server.ask("SET", .text(a.records.keys.rate(debts[5].key)), "no hash")
            let (ahead, failure) = await a.records.settle(debts)
            expect(failure != nil)
            expect(slots.filter { ahead[Int($0)] == nil }, equals: [5])
        }
    }

    @Test("Gateways count once each, until they have not reported for five seconds")
    func gateways() async throws {
        try await withReplicas { a, b, server in
            try await expect(a.records.countGateways(including: 1), equals: 1)
            try await expect(b.records.countGateways(including: .max), equals: 2)
            try await expect(a.records.countGateways(including: 1), equals: 2)
            try await server.ask("ZADD", .text(a.records.keys.gateways), "1", .text("\(SessionID(.max))"))
            try await expect(a.records.countGateways(including: 1), equals: 1)
            for id in UInt64(2)...80 { _ = try await a.records.countGateways(including: id) }
            try await expect(b.records.countGateways(including: 1), equals: 64)
        }
    }
}
