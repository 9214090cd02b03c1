import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The in-memory throttle states")
struct MemoryThrottleTests {
    private let now = Sample.start

    private func counter(_ number: UInt64, lifetime: Int64) -> ThrottleCounter {
        let rule = ThrottleRule(
            limit: .max, window: .seconds(lifetime), delay: .window, maxDelay: .seconds(lifetime))
        return ThrottleCounter(ThrottleKey(.address, hash: number), rule)
    }

    private func add(_ number: UInt64, _ throttle: MemoryThrottle, lifetime: Int64, at time: SessionTime) {
        let counter = counter(number, lifetime: lifetime)
        expect(throttle.count([counter], now: time), equals: ThrottleResult([counter], [nil], now: time))
    }

    private func isKnown(_ number: UInt64, _ throttle: MemoryThrottle, at time: SessionTime) -> Bool {
        throttle.states([ThrottleKey(.address, hash: number)], now: time) != [nil]
    }

    @Test("are bounded, and evict the state that would expire first")
    func bounded() {
        let throttle = MemoryThrottle(capacity: 100)
        add(0, throttle, lifetime: 3_600, at: now)
        for number in 1...1_000 as ClosedRange<UInt64> {
            add(number, throttle, lifetime: 600, at: now + .milliseconds(Int64(number)))
            #expect(throttle.count <= 100)
        }
        expect(isKnown(0, throttle, at: now + .seconds(1)))
        expect(isKnown(1_000, throttle, at: now + .seconds(1)))
        expect(!isKnown(1, throttle, at: now + .seconds(1)))
    }

    @Test("Rule 32: a flood of account names evicts no count of an address, whose state expires first")
    func accountNames() {
        let throttle = MemoryThrottle(capacity: 100)
        add(1, throttle, lifetime: 10, at: now)
        let rule = counter(0, lifetime: 3_600).rule
        for scope in ThrottleKey.Scope.allCases where scope != .address {
            _ = throttle.count(
                (0..<1_000).map { ThrottleCounter(ThrottleKey(scope, hash: $0), rule) }, now: now)
        }
        expect(isKnown(1, throttle, at: now + .seconds(1)))
        expect(throttle.count, equals: 1 + 100 * (ThrottleKey.Scope.allCases.count - 1))
    }

    @Test("are at most 100,000 of a scope unless another capacity is set")
    func defaultCapacity() {
        let throttle = MemoryThrottle()
        _ = throttle.count((0..<100_010).map { counter($0, lifetime: 600) }, now: now)
        expect(throttle.count, equals: 100_000)
    }

    @Test("evict no active state while there is an expired one")
    func expiredFirst() {
        let throttle = MemoryThrottle(capacity: 2)
        add(1, throttle, lifetime: 10, at: now)
        add(2, throttle, lifetime: 100, at: now)
        add(3, throttle, lifetime: 5, at: now + .seconds(10))
        expect(isKnown(2, throttle, at: now + .seconds(10)))
        expect(isKnown(3, throttle, at: now + .seconds(10)))
    }

    @Test("delete expired states")
    func sweeps() {
        let throttle = MemoryThrottle()
        add(1, throttle, lifetime: 20, at: now)
        throttle.sweep(now: now + .seconds(10))
        expect(throttle.count, equals: 1)
        throttle.sweep(now: now + .seconds(20))
        expect(throttle.count, equals: 0)
    }

    @Test("do not grow with repeated changes")
    func changes() {
        let throttle = MemoryThrottle(capacity: 10)
        let counter = counter(1, lifetime: 60)
        for _ in 1...10_000 { _ = throttle.count([counter], now: now) }
        expect(throttle.count, equals: 1)
        expect(throttle.states([counter.key], now: now)[0]?.count, equals: 10_000)
    }
}
