import CloakroomWire
import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore

private let second: UInt64 = 1_000_000_000
private let millisecond: UInt64 = 1_000_000

func testIdentity(_ number: Int, upstream: String = "api", address: String? = nil) -> TargetIdentity {
    TargetIdentity(upstream: upstream, scheme: .http, host: "host\(number)", port: 80, address: address)
}

@Suite("Target state")
struct TargetStateTests {
    private let state = TargetState(testIdentity(0), slots: TargetSlots())
    private let now: UInt64 = 100 * second

    private func latency(_ now: UInt64) -> UInt64 {
        state.latency(load: state.load.load(ordering: .relaxed), at: MonotonicMilliseconds(now))
    }

    @Test("A request counts from its start to its end, and owes a head until it has one")
    func load() {
        state.started(now: now)
        state.started(now: now)
        state.started(now: now, isTimed: false)
        expect(state.inFlight == 3 && state.owingHeads == 2)
        state.noLongerOwesHead()
        expect(state.inFlight == 3 && state.owingHeads == 1)
        state.ended(owesHead: false)
        state.ended(owesHead: true)
        state.ended(owesHead: false)
        expect(state.inFlight == 0 && state.owingHeads == 0)
    }

    @Test("Counts never go below 0")
    func underflow() {
        state.ended(owesHead: true)
        expect(state.inFlight == 0 && state.owingHeads == 0)
        state.noLongerOwesHead()
        expect(state.inFlight == 0 && state.owingHeads == 0)
        state.started(now: now, isTimed: false)
        state.ended(owesHead: true)
        expect(state.inFlight == 0 && state.owingHeads == 0)
        state.started(now: now, isTimed: false)
        state.noLongerOwesHead()
        expect(state.inFlight == 1 && state.owingHeads == 0)
    }

    @Test("A measurement above the estimate replaces it")
    func peak() {
        expect(state.estimatedLatency(now: now), equals: nil)
        state.headReceived(after: 10 * millisecond, now: now)
        state.headReceived(after: 50 * millisecond, now: now + second)
        expect(state.estimatedLatency(now: now + second), equals: 50 * millisecond)
    }

    @Test("A lower measurement has the weight of the time since the last one")
    func decay() {
        state.headReceived(after: 100 * millisecond, now: now)
        state.headReceived(after: 20 * millisecond, now: now + 4_096 * millisecond)
        expect(state.estimatedLatency(now: now + 4_096 * millisecond), equals: 60 * millisecond)
        state.headReceived(after: 20 * millisecond, now: now + 3 * 4_096 * millisecond)
        expect(state.estimatedLatency(now: now + 3 * 4_096 * millisecond), equals: 30 * millisecond)
    }

    @Test("The estimate of an unused target decays by half in a half-life")
    func unused() {
        state.headReceived(after: 80 * millisecond, now: now)
        let expected: [(UInt64, UInt64)] = [
            (0, 80_000), (2_048, 56_250), (4_096, 40_000), (6_144, 28_125), (8_192, 20_000),
        ]
        for (age, value) in expected {
            expect(state.estimatedLatency(now: now + age * millisecond), equals: value * 1_000)
        }
        expect(state.estimatedLatency(now: now + 3_600 * second), equals: 1_000)
        state.sweepEstimate(now: now + second)
        expect(state.estimatedLatency(now: now + second) != nil)
        state.sweepEstimate(now: now + 3_600 * second)
        expect(state.estimatedLatency(now: now + 3_600 * second), equals: nil)
    }

    @Test("The estimate falls at any rate of requests", arguments: [10, 100, 700, 1_000, 5_000] as [UInt64])
    func rounding(perSecond: UInt64) {
        state.headReceived(after: 3 * millisecond, now: now)
        var time = now
        while time < now + 16_384 * millisecond {
            time += second / perSecond
            state.headReceived(after: millisecond, now: time)
        }
        // Exact: 1 ms + 2 ms / 16.
        let estimate = state.estimatedLatency(now: time) ?? 0
        expect(estimate > 1_060_000 && estimate < 1_190_000, "\(estimate)")
    }

    @Test("A clock that is behind does not change the estimate's age")
    func clocks() {
        state.headReceived(after: 100 * millisecond, now: now)
        expect(state.estimatedLatency(now: now - 5 * millisecond), equals: 100 * millisecond)
        state.headReceived(after: 10 * millisecond, now: now - 5 * millisecond)
        expect(state.estimatedLatency(now: now), equals: 100 * millisecond)
    }

    @Test("The estimate survives the wrap-around of milliseconds")
    func wrapAround() {
        let end = (UInt64(UInt32.max) + 1) * millisecond
        state.headReceived(after: 80 * millisecond, now: end - 2_048 * millisecond)
        expect(state.estimatedLatency(now: end + 2_048 * millisecond), equals: 40 * millisecond)
        state.started(now: end - 100 * millisecond)
        expect(latency(end + 400 * millisecond), equals: 500_000)
    }

    @Test("A failure counts as the penalty or as its duration, whichever is longer")
    func failures() {
        expect(state.failed(after: millisecond, now: now), equals: 1)
        expect(state.estimatedLatency(now: now), equals: second)
        expect(state.failed(after: 3 * second, now: now), equals: 2)
        expect(state.estimatedLatency(now: now), equals: 3 * second)
        state.setRules(EstimateRules(BalanceConfiguration(failurePenalty: .seconds(20))))
        _ = state.failed(after: 0, now: now)
        expect(state.estimatedLatency(now: now), equals: 20 * second)
        state.headReceived(after: millisecond, now: now)
        expect(state.failed(after: 0, now: now), equals: 1)
    }

    @Test("A client that leaves counts only if it waited longer than the estimate")
    func cancelled() {
        state.headReceived(after: 100 * millisecond, now: now)
        state.cancelled(after: 10 * millisecond, now: now + 100 * millisecond)
        expect(state.estimatedLatency(now: now), equals: 100 * millisecond)
        state.cancelled(after: 2 * second, now: now)
        expect(state.estimatedLatency(now: now), equals: 2 * second)
    }

    @Test("A request for fewer requests raises the estimate to the failure penalty, and never lowers it")
    func throttled() {
        state.cancelled(after: 5 * second, now: now)
        state.throttled(now: now)
        expect(state.estimatedLatency(now: now), equals: 5 * second)
        let other = TargetState(testIdentity(1), slots: TargetSlots())
        other.throttled(now: now)
        expect(other.estimatedLatency(now: now), equals: second)
    }

    @Test("A request that is not timed counts as load only")
    func untimed() {
        state.started(now: now, isTimed: false)
        state.headReceived(after: 50 * second, now: now + 50 * second, isTimed: false)
        expect(state.estimatedLatency(now: now + 50 * second), equals: nil)
        expect(state.owingHeads, equals: 0)
    }

    @Test("A target that owes a head is as slow as its silence")
    func silence() {
        state.headReceived(after: millisecond, now: now)
        expect(latency(now), equals: 1_000)
        // The time without requests is no silence.
        state.started(now: now + 60 * second)
        #expect(latency(now + 60 * second) < 1_000)
        expect(latency(now + 65 * second), equals: 5_000_000)
        state.started(now: now + 66 * second)
        expect(latency(now + 66 * second), equals: 6_000_000)
        state.headReceived(after: 6 * second, now: now + 66 * second)
        #expect(latency(now + 67 * second) > 4_000_000)
        state.ended(owesHead: true)
        state.ended(owesHead: true)
        expect(latency(now + 600 * second), equals: 1)
    }

    @Test("Without a measurement the first request costs nothing, and a further one more than any known target")
    func unknown() {
        expect(latency(now), equals: 0)
        state.started(now: now)
        #expect(latency(now) > TargetState.maxEstimate)
    }

    @Test("The board is asked only while the circuit is not closed")
    func needsBoard() {
        expect(!state.headReceived(after: 1, now: now))
        state.apply(.checkFailed, now: now)
        expect(!state.headReceived(after: 1, now: now))
        state.apply(.connectFailed(startedAt: now, times: .standard, random: 0), now: now)
        expect(state.headReceived(after: 1, now: now))
    }

    @Test("Only one caller claims a probe")
    func claim() {
        state.apply(.connectFailed(startedAt: now, times: .standard, random: 0), now: now)
        expect(!state.claimProbe(time: second, now: now))
        expect(state.claimProbe(time: second, now: now + second))
        expect(!state.claimProbe(time: second, now: now + second))
    }

    @Test("A target that was not usable for 10 s starts slowly, after a shorter time it does not")
    func warming() {
        let start = MonotonicMilliseconds(now + 10 * second)
        state.apply(.checkFailed, now: now)
        state.apply(.checkPassed, now: now + 10 * second - millisecond)
        expect(state.warmingTime(at: start), equals: nil)
        state.apply(.checkFailed, now: now)
        state.apply(.drained, now: now + 5 * second)
        state.apply(.checkPassed, now: now + 6 * second)
        state.apply(.undrained, now: now + 10 * second)
        expect(state.warmingTime(at: start), equals: 0)
        expect(state.warmingCost(1_600, slowStart: 10_000, at: start), equals: 16_000)
        let later = MonotonicMilliseconds(now + 15 * second)
        expect(state.warmingCost(1_600, slowStart: 10_000, at: later), equals: 3_200)
        expect(state.warmingCost(1_600, slowStart: 5_000, at: later), equals: 1_600)
        state.endWarming()
        expect(state.warmingTime(at: later), equals: nil)
    }

    @Test("Half-lives are rounded to a power of two and limited to their range")
    func halfLife() {
        let cases: [(Duration, UInt64)] = [
            (.seconds(4), 12), (.milliseconds(128), 7), (.zero, 7), (.seconds(60), 16), (.seconds(100_000), 16),
            (.milliseconds(2_800), 11), (.milliseconds(3_000), 12),
        ]
        for (duration, shift) in cases {
            expect(EstimateRules(BalanceConfiguration(halfLife: duration)).halfLifeShift, equals: shift)
        }
        let rules = EstimateRules(BalanceConfiguration(halfLife: .seconds(1), failurePenalty: .seconds(60)))
        expect(EstimateRules(packed: rules.packed), equals: rules)
    }

    @Test("A slot is used again only after the last reference to its state was released")
    func slots() {
        let slots = TargetSlots()
        var first: TargetState? = TargetState(testIdentity(0), slots: slots)
        let second = TargetState(testIdentity(1), slots: slots)
        expect(first?.slot == 0 && second.slot == 1)
        expect(TargetState(testIdentity(2), slots: slots).slot, equals: 2)
        first = nil
        expect(TargetState(testIdentity(3), slots: slots).slot, equals: 0)
    }
}
