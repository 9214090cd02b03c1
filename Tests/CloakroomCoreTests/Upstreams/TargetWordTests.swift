import TestSupport
import Testing

@testable import CloakroomCore

private let second: UInt64 = 1_000_000_000
private let times = EjectionTimes.standard

@Suite("Target word")
struct TargetWordTests {
    /// The length of the current state of the circuit in milliseconds, at the time of its begin.
    private func length(_ word: TargetWord, from now: UInt64) -> Int32 {
        MonotonicMilliseconds(now).elapsed(until: word.until)
    }

    private func ejected(at now: UInt64, random: UInt64 = 0) -> TargetWord {
        TargetWord.usable.after(.ejected(times: times, random: random), now: now)
    }

    @Test("Down, draining and circuit are independent, and each alone makes a target unusable")
    func independence() {
        let events: [(TargetEvent, TargetEvent)] = [
            (.checkFailed, .checkPassed), (.drained, .undrained),
            (.ejected(times: times, random: 0), .probeAbandoned),
        ]
        expect(TargetWord.usable.isUsable)
        for (event, _) in events { expect(!TargetWord.usable.after(event, now: second).isUsable) }
        var word = TargetWord.usable
        for (event, _) in events { word = word.after(event, now: second) }
        expect(word.isDown && word.isDraining && word.circuit == .ejected)
        word = word.after(.checkPassed, now: 2 * second)
        expect(!word.isDown && word.isDraining && word.circuit == .ejected)
        word = word.after(.undrained, now: 2 * second)
        expect(!word.isDraining && word.circuit == .ejected && !word.isUsable)
    }

    @Test("A passed check ends a back-off, but no ejection")
    func passedCheck() {
        let backOff = TargetWord.usable.after(.connectFailed(startedAt: 0, times: times, random: 0), now: second)
        expect(backOff.circuit == .backOff && !backOff.isUsable)
        expect(backOff.after(.checkPassed, now: second), equals: .usable)
        expect(ejected(at: second).after(.checkPassed, now: second), equals: ejected(at: second))
    }

    @Test("The back-off after failed connection attempts doubles from 1 s to 30 s, and a connection resets it")
    func backOff() {
        var word = TargetWord.usable
        var now = second
        var lengths: [Int32] = []
        for _ in 0..<8 {
            word = word.after(.connectFailed(startedAt: now, times: times, random: 0), now: now)
            lengths.append(length(word, from: now))
            now += 40 * second
        }
        expect(lengths, equals: [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000])
        word = word.after(.connected, now: now)
        expect(word, equals: .usable)
        word = word.after(.connectFailed(startedAt: now, times: times, random: 0), now: now)
        expect(length(word, from: now), equals: 1_000)
    }

    @Test("Jitter shortens a time by less than 25 %")
    func jitter() {
        expect(length(ejected(at: second, random: .max), from: second), equals: 7_501)
        expect(length(ejected(at: second, random: 1 << 63), from: second), equals: 8_750)
        let word = TargetWord.usable.after(.connectFailed(startedAt: 0, times: times, random: .max), now: second)
        expect(length(word, from: second), equals: 751)
    }

    @Test("A connection attempt that began before the back-off does not extend it")
    func attemptsInProgress() {
        let word = TargetWord.usable.after(.connectFailed(startedAt: second, times: times, random: 0), now: 2 * second)
        for startedAt in [second, 2 * second - 1_000_000] {
            expect(
                word.after(.connectFailed(startedAt: startedAt, times: times, random: 0), now: 3 * second), equals: word
            )
        }
        let later = word.after(
            .connectFailed(startedAt: 2 * second + 32_000_000, times: times, random: 0), now: 3 * second)
        expect(length(later, from: 3 * second), equals: 2_000)
    }

    @Test("At the end of its time one request probes, and a lost probe is free again at its deadline")
    func probe() {
        let word = ejected(at: second)
        expect(!word.canProbe(now: 11 * second - 1_000_000) && word.canProbe(now: 11 * second))
        expect(word.after(.probeStarted(time: 5 * second), now: 10 * second), equals: word)
        let probing = word.after(.probeStarted(time: 5 * second), now: 12 * second)
        expect(probing.isProbing && !probing.isUsable && probing.circuit == .ejected)
        expect(!probing.canProbe(now: 17 * second - 1_000_000) && probing.canProbe(now: 17 * second))
        expect(probing.after(.probeStarted(time: 5 * second), now: 17 * second).isProbing)
        expect(probing.after(.probeAbandoned, now: 13 * second).canProbe(now: 13 * second))
        expect(word.after(.probeAbandoned, now: 13 * second), equals: word)
    }

    @Test("After an abandoned probe the results of other requests do not count")
    func abandonedProbe() {
        let probing = ejected(at: second).after(.probeStarted(time: 5 * second), now: 12 * second)
        let word = probing.after(.probeAbandoned, now: 13 * second)
        expect(!word.isProbing && word.circuit == .ejected)
        expect(word.after(.requestSucceeded(startedAt: 14 * second), now: 15 * second), equals: word)
        let failed = TargetEvent.requestFailed(startedAt: 14 * second, times: times, random: 0)
        expect(word.after(failed, now: 15 * second), equals: word)
    }

    @Test("No target is probed while it is down or draining", arguments: [TargetEvent.checkFailed, .drained])
    func noProbe(event: TargetEvent) {
        let word = ejected(at: second).after(event, now: second)
        expect(!word.canProbe(now: 60 * second))
        expect(word.after(.probeStarted(time: second), now: 60 * second), equals: word)
        expect(!TargetWord.usable.canProbe(now: 60 * second))
    }

    @Test("The result of a probe closes the circuit, or ejects for twice the time")
    func probeResult() {
        let start = 12 * second
        let probing = ejected(at: second).after(.probeStarted(time: 5 * second), now: start)
        let closed = probing.after(.requestSucceeded(startedAt: start), now: start + second)
        expect(closed.isUsable && closed.ejections == 1)
        for event in [
            TargetEvent.requestFailed(startedAt: start, times: times, random: 0),
            .connectFailed(startedAt: start, times: times, random: 0),
        ] {
            let again = probing.after(event, now: start + second)
            expect(again.circuit == .ejected && !again.isProbing)
            expect(length(again, from: start + second), equals: 20_000)
        }
    }

    @Test("The result of a request that began before the probe is ignored")
    func earlierRequests() {
        let probing = ejected(at: second).after(.probeStarted(time: 5 * second), now: 12 * second)
        let earlier = 12 * second - 40_000_000
        expect(probing.after(.requestSucceeded(startedAt: earlier), now: 13 * second), equals: probing)
        expect(
            probing.after(.requestFailed(startedAt: earlier, times: times, random: 0), now: 13 * second),
            equals: probing)
        expect(
            probing.after(.connectFailed(startedAt: earlier, times: times, random: 0), now: 13 * second),
            equals: probing)
    }

    @Test("Without a probe, results of requests and connections change no ejection")
    func noProbeNoChange() {
        let word = ejected(at: second)
        for event in [
            TargetEvent.requestSucceeded(startedAt: 5 * second), .connected,
            .requestFailed(startedAt: 5 * second, times: times, random: 0),
            .connectFailed(startedAt: 5 * second, times: times, random: 0), .ejected(times: times, random: 0),
        ] {
            expect(word.after(event, now: 6 * second), equals: word)
        }
        expect(TargetWord.usable.after(.requestSucceeded(startedAt: 5), now: 6), equals: .usable)
    }

    @Test("Ejections double up to the longest, and each clean period makes the next one shorter")
    func doublings() {
        var word = TargetWord.usable
        var now = second
        var lengths: [Int32] = []
        for _ in 0..<8 {
            word = word.after(.ejected(times: times, random: 0), now: now)
            lengths.append(length(word, from: now))
            now += 400 * second
            word = word.after(.probeStarted(time: second), now: now)
            word = word.after(.requestSucceeded(startedAt: now), now: now)
        }
        expect(lengths, equals: [10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000, 300_000])
        // One period suffices after any number of ejections of the longest time.
        word = word.after(.cleanPeriod, now: now)
        expect(length(word.after(.ejected(times: times, random: 0), now: now), from: now), equals: 160_000)
        for _ in 0..<9 { word = word.after(.cleanPeriod, now: now) }
        expect(word, equals: .usable)
        expect(ejected(at: second).after(.cleanPeriod, now: second), equals: ejected(at: second))
    }

    @Test("Times are compared across the wrap-around of milliseconds")
    func wrapAround() {
        let now = (UInt64(UInt32.max) - 2_000) * 1_000_000
        let word = ejected(at: now)
        expect(!word.canProbe(now: now + 9 * second) && word.canProbe(now: now + 10 * second))
        let probing = word.after(.probeStarted(time: second), now: now + 10 * second)
        expect(probing.after(.requestSucceeded(startedAt: now + 10 * second), now: now + 11 * second).isUsable)
        expect(probing.after(.requestSucceeded(startedAt: now + 9 * second), now: now + 11 * second), equals: probing)
    }

    @Test("A target whose time passed long ago can be probed after 60 days, if it ages")
    func aged() {
        var word = ejected(at: second)
        expect(word.after(.aged, now: 7_000 * second), equals: word)
        for day in 1...60 as ClosedRange<UInt64> { word = word.after(.aged, now: day * 86_400 * second) }
        expect(word.canProbe(now: 60 * 86_400 * second + second))
        expect(!ejected(at: second).canProbe(now: (10 + 26 * 86_400) * second))
        expect(TargetWord.usable.after(.aged, now: 60 * 86_400 * second), equals: .usable)
    }

    @Test("Durations are limited to 1 hour, and the longest is at least the first")
    func limits() {
        let times = EjectionTimes(first: .seconds(1 << 40), longest: .zero)
        expect(times.first == 3_600_000 && times.longest == 3_600_000)
        expect(EjectionTimes(first: .zero, longest: .zero).first, equals: 1)
        let word = TargetWord.usable.after(.ejected(times: times, random: 0), now: second)
        expect(length(word, from: second), equals: 3_600_000)
        expect(word.since, equals: MonotonicMilliseconds(second))
        expect(times.full(doublings: .max) == 3_600_000 && times.full(doublings: -1) == 3_600_000)
    }

    @Test("No sequence of events leaves a target that can neither be used nor be probed later")
    func alwaysReturns() {
        var random: UInt64 = 1
        for _ in 0..<200 {
            var word = TargetWord.usable
            var now: UInt64 = (UInt64(UInt32.max) - 100_000) * 1_000_000
            for _ in 0..<200 {
                random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                now += random >> 32
                let startedAt = now - (random >> 31) % (20 * second)
                let events: [TargetEvent] = [
                    .checkFailed, .checkPassed, .drained, .undrained, .connected, .cleanPeriod, .aged, .probeAbandoned,
                    .connectFailed(startedAt: startedAt, times: times, random: random),
                    .requestFailed(startedAt: startedAt, times: times, random: random),
                    .requestSucceeded(startedAt: startedAt), .ejected(times: times, random: random),
                    .probeStarted(time: 5 * second),
                ]
                word = word.after(events[Int(random >> 40) % events.count], now: now)
                expect(word.isUsable, equals: !word.isDown && !word.isDraining && word.circuit == .closed)
                expect(!word.isProbing || word.circuit != .closed)
            }
            word = word.after(.checkPassed, now: now).after(.undrained, now: now)
            expect(word.isUsable || word.canProbe(now: now + 300 * second))
        }
    }
}
