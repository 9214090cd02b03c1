import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The throttle's scripts", .timeLimit(.minutes(2)))
struct ThrottleScriptsTests {
    private static let rules =
        ThrottleKey.Scope.allCases.map { SignInThrottle.rule($0, attemptsPerAddress: 7) } + [
            ThrottleRule(limit: 1, window: .seconds(60), delay: .constant(.seconds(20)), maxDelay: .seconds(40)),
            ThrottleRule(
                limit: 2, window: .milliseconds(61_500),
                delay: .doubling(first: .milliseconds(7), longest: .seconds(400), memory: .seconds(90)),
                maxDelay: .seconds(600)),
        ]

    private static func key(_ rule: Int) -> ThrottleKey { ThrottleKey(.address, hash: UInt64(rule), group: 0) }

    /// What a server without expiry would store.
    private struct Model {
        var states: [ThrottleKey: ThrottleState] = [:]
        /// When the server deletes the states by its own clock.
        var deadlines: [ThrottleKey: ContinuousClock.Instant] = [:]

        mutating func set(_ key: ThrottleKey, _ state: ThrottleState?, _ lifetime: Duration) {
            states[key] = state
            deadlines[key] = state.map { _ in .now + lifetime }
        }

        mutating func count(_ counters: [ThrottleCounter], now: SessionTime) -> ThrottleResult {
            let result = ThrottleResult(counters, counters.map { states[$0.key] }, now: now)
            if case .counted(let counts) = result {
                for count in counts { set(count.counter.key, count.after, count.lifetime) }
            }
            return result
        }

        mutating func remove(_ counts: [ThrottleCount], now: SessionTime) {
            for count in counts {
                let new = count.removed(from: states[count.counter.key], now: now)
                set(count.counter.key, new?.state, new?.lifetime ?? .zero)
            }
        }
    }

    @Test(
        "compute what the rules compute, for random attempts, removals and clock steps",
        arguments: 1...4 as ClosedRange<UInt64>)
    func differential(seed: UInt64) async throws {
        try await withValkeyStore { store, server in
            var random = SeededGenerator(seed: seed)
            var model = Model()
            var now = SessionTime(milliseconds: 1_800_000_000_000)
            var attempts: [[ThrottleCount]] = []
            var (delayed, restored) = (0, 0)
            for step in 0..<2_000 {
                // Also backwards, as the clocks of replicas differ.
                switch Int.random(in: 0..<60, using: &random) {
                case 0: now = now + .seconds(Int64.random(in: -900...4_000, using: &random))
                case 1..<12: now = now + .milliseconds(Int64.random(in: -50...2_500, using: &random))
                default: break
                }
                let expiring = model.deadlines.filter { $0.value < .now + .seconds(3) }.keys
                for key in expiring {
                    model.set(key, nil, .zero)
                    try await server.ask("DEL", .text(store.keys.throttle(key)))
                }
                if Int.random(in: 0..<3, using: &random) < 2 || attempts.isEmpty {
                    let first = Int.random(in: 0..<Self.rules.count, using: &random)
                    let counters = (0..<Int.random(in: 1...4, using: &random)).map { number in
                        let index = (first + number) % Self.rules.count
                        return ThrottleCounter(Self.key(index), Self.rules[index])
                    }
                    let before = model.states
                    let expected = model.count(counters, now: now)
                    let result = try await store.countAttempt(counters, now: now)
                    try require(result == expected, "step \(step), \(now), \(before)")
                    if case .counted(let counts) = result {
                        attempts.append(counts)
                    } else {
                        delayed += 1
                    }
                } else {
                    let isLatest = Bool.random(using: &random)
                    let index = isLatest ? attempts.count - 1 : Int.random(in: attempts.indices, using: &random)
                    var counts = attempts.remove(at: index)
                    if Int.random(in: 0..<8, using: &random) == 0 {
                        for index in counts.indices { counts[index].forgetsAll = true }
                    }
                    restored += counts.count { $0.before != nil && model.states[$0.counter.key] == $0.after }
                    model.remove(counts, now: now)
                    try await store.removeAttempt(counts, now: now)
                }
                let keys = Self.rules.indices.map(Self.key)
                let states = try await store.throttleStates(keys, now: now)
                try require(states == keys.map { model.states[$0] }, "step \(step), \(now)")
            }
            expect(delayed > 100 && restored > 20)
        }
    }
}
