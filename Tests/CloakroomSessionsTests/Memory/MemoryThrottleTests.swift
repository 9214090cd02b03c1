import CloakroomCore
import Testing

@testable import CloakroomSessions

@Suite("The in-memory throttle states")
struct MemoryThrottleTests {
    private let now = Sample.start
    private var state: ThrottleState { ThrottleState(count: 1, since: now, notBefore: now) }

    private func add(_ number: UInt64, _ throttle: MemoryThrottle, lifetime: Int64, at time: Timestamp) {
        let key = ThrottleKey(.address, hash: number)
        #expect(throttle.replace(key, nil, with: state, lifetime: .seconds(lifetime), now: time))
    }

    private func isKnown(_ number: UInt64, _ throttle: MemoryThrottle, at time: Timestamp) -> Bool {
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
        #expect(isKnown(0, throttle, at: now + .seconds(1)))
        #expect(isKnown(1_000, throttle, at: now + .seconds(1)))
        #expect(!isKnown(1, throttle, at: now + .seconds(1)))
    }

    @Test("evict no active state while there is an expired one")
    func expiredFirst() {
        let throttle = MemoryThrottle(capacity: 2)
        add(1, throttle, lifetime: 10, at: now)
        add(2, throttle, lifetime: 100, at: now)
        add(3, throttle, lifetime: 5, at: now + .seconds(10))
        #expect(isKnown(2, throttle, at: now + .seconds(10)))
        #expect(isKnown(3, throttle, at: now + .seconds(10)))
    }

    @Test("delete expired states, and restart the lifetime at each change")
    func sweeps() {
        let throttle = MemoryThrottle()
        let key = ThrottleKey(.address, hash: 1)
        add(1, throttle, lifetime: 10, at: now)
        let next = ThrottleState(count: 2, since: now, notBefore: now)
        #expect(throttle.replace(key, state, with: next, lifetime: .seconds(20), now: now))
        throttle.sweep(now: now + .seconds(10))
        #expect(throttle.count == 1)
        throttle.sweep(now: now + .seconds(20))
        #expect(throttle.count == 0)
    }

    @Test("do not grow with repeated changes")
    func changes() {
        let throttle = MemoryThrottle(capacity: 10)
        let key = ThrottleKey(.account, hash: 1)
        var known: ThrottleState?
        for count in 1...10_000 as ClosedRange<UInt32> {
            let next = ThrottleState(count: count, since: now, notBefore: now)
            #expect(throttle.replace(key, known, with: next, lifetime: .seconds(60), now: now))
            known = next
        }
        #expect(throttle.count == 1)
        #expect(throttle.states([key], now: now) == [known])
    }
}
