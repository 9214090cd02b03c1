import Testing

@testable import CloakroomProxy

@Suite("Target selection for a connection")
struct TargetBalancerTests {
    private let second: UInt64 = 1_000_000_000

    @Test("Targets take turns")
    func turns() {
        var health = TargetBalancer(count: 3)
        #expect((0..<7).map { _ in health.selectTarget(now: 0, tried: []) } == [0, 1, 2, 0, 1, 2, 0])
    }

    @Test("A follow-up uses the target of the last turn, takes no turn itself, and skips a failed target")
    func followUp() {
        var health = TargetBalancer(count: 3)
        for turn in [0, 1, 2, 0] {
            #expect(health.selectTarget(now: 0, tried: []) == turn)
            #expect(health.selectTarget(now: 0, tried: [], isFollowUp: true) == turn)
        }
        health.failed(0, startedAt: 0, now: 0, random: 0)
        #expect(health.selectTarget(now: 0, tried: [], isFollowUp: true) == 1)
        #expect(health.selectTarget(now: 0, tried: [1], isFollowUp: true) == 2)
    }

    @Test("A failed target is skipped until its back-off ends, and then has its turn again")
    func backOff() {
        var health = TargetBalancer(count: 2)
        #expect(health.selectTarget(now: 0, tried: []) == 0)
        health.failed(0, startedAt: 0, now: 0, random: 0)
        #expect(health.selectTarget(now: 0, tried: [0]) == 1)
        #expect(health.selectTarget(now: second - 1, tried: []) == 1)
        #expect(health.selectTarget(now: second, tried: []) == 0)
        #expect(health.selectTarget(now: second, tried: []) == 1)
    }

    @Test("Each target is tried once per connection")
    func once() {
        var health = TargetBalancer(count: 2)
        #expect(health.selectTarget(now: 0, tried: [0]) == 1)
        #expect(health.selectTarget(now: 0, tried: [0, 1]) == nil)
        health.failed(0, startedAt: 0, now: 0, random: 0)
        #expect(health.selectTarget(now: 0, tried: [0, 1]) == nil)
    }

    @Test("If all targets are in back-off, the one due first is tried, even if it is the only one")
    func allDown() {
        var health = TargetBalancer(count: 3)
        for (index, now) in [(0, 3), (1, 1), (2, 2)] as [(Int, UInt64)] {
            health.failed(index, startedAt: now, now: now, random: 0)
        }
        #expect(health.selectTarget(now: 4, tried: []) == 1)
        #expect(health.selectTarget(now: 4, tried: [1]) == 2)
        #expect(health.selectTarget(now: 4, tried: [1, 2]) == 0)
        var single = TargetBalancer(count: 1)
        single.failed(0, startedAt: 0, now: 0, random: 0)
        #expect(single.selectTarget(now: 1, tried: []) == 0)
    }

    @Test("The back-off doubles from 1 s to 30 s, and one success resets it")
    func doubles() {
        var health = TargetBalancer(count: 2)
        var now: UInt64 = 0
        for seconds in [1, 2, 4, 8, 16, 30, 30, 30] as [UInt64] {
            health.failed(0, startedAt: now, now: now, random: 0)
            #expect(health.selectTarget(now: now + seconds * second - 1, tried: []) == 1)
            now += seconds * second
            #expect(health.selectTarget(now: now, tried: [1]) == 0)
        }
        health.succeeded(0)
        health.failed(0, startedAt: now, now: now, random: 0)
        #expect(health.selectTarget(now: now + second, tried: [1]) == 0)
    }

    @Test("Concurrent failed attempts count as one failure")
    func together() {
        var health = TargetBalancer(count: 2)
        health.failed(0, startedAt: 0, now: 10, random: 0)
        for now in 11..<20 {
            #expect(health.failed(0, startedAt: 5, now: UInt64(now), random: 0) == 10 + second)
        }
        #expect(health.selectTarget(now: 10 + second, tried: []) == 0)
    }

    @Test("Jitter subtracts at most a quarter")
    func jitter() {
        for random in [0, 1, 249_999_999, 250_000_000, UInt64.max] {
            var health = TargetBalancer(count: 2)
            health.failed(0, startedAt: 0, now: 0, random: random)
            #expect(health.selectTarget(now: second / 4 * 3, tried: []) == 1)
            health = TargetBalancer(count: 2)
            health.failed(0, startedAt: 0, now: 0, random: random)
            #expect(health.selectTarget(now: second, tried: []) == 0)
        }
    }
}
