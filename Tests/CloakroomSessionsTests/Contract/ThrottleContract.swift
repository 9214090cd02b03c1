import CloakroomCore
import TestSupport
import Testing

/// The contract of every throttle store.
struct ThrottleContract {
    let now: SessionTime

    private func counter(_ scope: ThrottleKey.Scope, _ hash: UInt64 = 1) -> ThrottleCounter {
        ThrottleCounter(ThrottleKey(scope, hash: hash, group: 1), SignInThrottle.rule(scope))
    }

    private var counters: [ThrottleCounter] {
        let ofAll = ThrottleCounter(ThrottleKey(.account, hash: .max), SignInThrottle.rule(.account))
        return [counter(.accountAndAddress), counter(.address, .max), ofAll, counter(.attempts)]
    }

    private func counted(
        _ result: ThrottleResult, first: Int = 4, forgetsAll: Bool = false
    ) throws -> [ThrottleCount] {
        guard case .counted(var counts) = result else {
            Issue.record("the attempt was not counted")
            return []
        }
        for index in counts.indices { counts[index].forgetsAll = forgetsAll }
        return Array(counts.prefix(first))
    }

    private func counts(_ store: any ThrottleStore) async throws -> [UInt32] {
        try await store.throttleStates(counters.map(\.key), now: now).map { $0?.count ?? 0 }
    }

    /// - Parameters: Two interfaces of the same store.
    func check(_ one: any ThrottleStore, _ other: any ThrottleStore) async throws {
        try await expect(empty: one.throttleStates([], now: now))
        try await expect(counts(one), equals: [0, 0, 0, 0])
        let first = try await one.countAttempt(counters, now: now)
        try expect(counted(first).map(\.before), equals: [nil, nil, nil, nil])
        try await expect(counts(other), equals: [1, 1, 1, 1])
        let second = try await other.countAttempt(counters, now: now)
        let state = ThrottleState(count: 1, since: now, notBefore: SessionTime(milliseconds: 0))
        try expect(counted(second).map(\.before), equals: [state, state, state, state])
        // The first one is removed from a state that the second one has changed.
        try await one.removeAttempt(try counted(first), now: now)
        try await expect(counts(other), equals: [1, 1, 1, 1])
        try await one.removeAttempt(try counted(second, first: 2), now: now)
        try await expect(counts(other), equals: [0, 0, 1, 1])
        for _ in 0..<4 { _ = try await other.countAttempt(counters, now: now) }
        let fifth = try await one.countAttempt(counters, now: now)
        // The account has to wait, so the attempt is counted under no key.
        try await expect(other.countAttempt(counters, now: now), equals: .delayed([.seconds(1), .zero, .zero, .zero]))
        try await expect(counts(one), equals: [5, 5, 6, 6])
        // A state that no other attempt has changed is restored.
        try await other.removeAttempt(try counted(fifth), now: now)
        try await expect(counts(one), equals: [4, 4, 5, 5])
        let sixth = try await one.countAttempt(counters, now: now)
        try await other.removeAttempt(try counted(sixth, first: 1, forgetsAll: true), now: now)
        try await expect(counts(one), equals: [0, 5, 6, 6])
    }

    /// An attempt that is delayed by the key of another group only is counted under no key.
    func checkGroups(_ one: any ThrottleStore) async throws {
        let rule = ThrottleRule(limit: 1, window: .seconds(60), delay: .window, maxDelay: .seconds(120))
        let (mine, shared) = (counter(.address, 7), ThrottleCounter(ThrottleKey(.account, hash: 9), rule))
        let first = try await one.countAttempt([shared], now: now)
        try expect(counted(first).count, equals: 1)
        try await expect(one.countAttempt([mine, shared], now: now), equals: .delayed([.zero, .seconds(60)]))
        try await expect(one.throttleStates([mine.key], now: now), equals: [nil])
        try await expect(one.countAttempt([shared, mine], now: now), equals: .delayed([.seconds(60), .zero]))
        try await expect(one.throttleStates([mine.key], now: now), equals: [nil])
    }

    /// Counts a hundred concurrent attempts: the rule admits thirty.
    func race(_ one: any ThrottleStore, _ other: any ThrottleStore) async throws {
        let counters = [counter(.address), counters[2]]
        let admitted = try await withThrowingTaskGroup(of: Bool.self) { group in
            for index in 0..<100 {
                group.addTask {
                    if case .counted = try await (index % 2 == 0 ? one : other).countAttempt(counters, now: now) {
                        return true
                    }
                    return false
                }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        expect(admitted, equals: 30)
        try await expect(one.throttleStates(counters.map(\.key), now: now).map { $0?.count }, equals: [30, 30])
    }
}
