import TestSupport
import Testing

@testable import CloakroomCore

private let second: UInt64 = 1_000_000_000
private let start: UInt64 = 1_000 * second
/// Random bits without jitter.
private let middle: UInt64 = 1 << 63

@Suite("Health scheduler")
struct HealthSchedulerTests {
    private func configuration(
        interval: Duration = .seconds(5), timeout: Duration = .seconds(2)
    ) -> HealthCheckConfiguration {
        HealthCheckConfiguration(probe: .http(path: "/"), interval: interval, timeout: timeout)
    }

    private func scheduler(
        _ count: Int, _ configuration: HealthCheckConfiguration, isStart: Bool = true
    ) -> HealthScheduler {
        var scheduler = HealthScheduler()
        let targets = (0..<count).map { testIdentity($0) }
        scheduler.setTargets(
            targets, upstream: "api", configuration: configuration, isStart: isStart, now: start)
        return scheduler
    }

    /// Runs checks of one target that have these results, and returns the changes and the times between checks.
    private func run(
        _ scheduler: inout HealthScheduler, _ results: [Bool]
    ) -> (changes: [HealthScheduler.Change], pauses: [UInt64]) {
        var changes: [HealthScheduler.Change] = []
        var pauses: [UInt64] = []
        for result in results {
            guard let due = nextTime(&scheduler), let check = scheduler.due(now: due).first else { break }
            changes.append(scheduler.result(check, isPassed: result, now: due, random: middle))
            if let next = nextTime(&scheduler) { pauses.append(next - due) }
        }
        return (changes, pauses)
    }

    /// The time of the next check, without the entries of checks that have ended.
    private func nextTime(_ scheduler: inout HealthScheduler) -> UInt64? {
        while let due = scheduler.nextDue {
            var copy = scheduler
            if !copy.due(now: due).isEmpty { return due }
            scheduler = copy
        }
        return nil
    }

    @Test("The first checks are spread over the interval, later ones have jitter of 10 %")
    func times() {
        var scheduler = scheduler(5, configuration())
        for index in 0..<5 as Range<UInt64> {
            expect(empty: scheduler.due(now: start + index * second - 1))
            let checks = scheduler.due(now: start + index * second)
            expect(checks.map(\.target), equals: [testIdentity(Int(index))])
            expect(checks.first?.deadline, equals: start + (index + 2) * second)
            for check in checks { _ = scheduler.result(check, isPassed: true, now: check.deadline, random: middle) }
        }
        for (random, pause) in [(0, 4_500_000_000), (middle, 5 * second), (UInt64.max, 5_499_999_999)]
            as [(UInt64, UInt64)]
        {
            var scheduler = self.scheduler(1, configuration())
            guard let check = scheduler.due(now: start).first else { return expect(Bool(false)) }
            _ = scheduler.result(check, isPassed: true, now: start + second, random: random)
            let next = nextTime(&scheduler)
            expect(next.map { $0 - start - second }, equals: pause)
        }
    }

    @Test("The first result alone decides if targets start up")
    func firstResult() {
        var down = scheduler(1, configuration())
        expect(down.isUp(testIdentity(0)), equals: true)
        expect(run(&down, [false]).changes, equals: [.down])
        expect(down.isUp(testIdentity(0)), equals: false)
        var up = scheduler(1, configuration())
        expect(run(&up, [true, false, false, false]).changes, equals: [.unchanged, .unchanged, .unchanged, .down])
    }

    @Test("`fall` and `rise` results in a row change the state; checks are 1 s apart meanwhile")
    func riseAndFall() {
        var scheduler = scheduler(1, configuration())
        let results = [true, false, false, true, false, false, false, true, false, true, true, true]
        let (changes, pauses) = run(&scheduler, results)
        expect(changes.indices.filter { changes[$0] == .down }, equals: [6])
        expect(changes.indices.filter { changes[$0] == .up }, equals: [10])
        expect(pauses, equals: [5, 1, 1, 5, 1, 1, 5, 1, 5, 1, 5, 5].map { $0 * second })
        var fast = self.scheduler(1, configuration(interval: .milliseconds(500), timeout: .milliseconds(500)))
        expect(run(&fast, [true, false]).pauses, equals: [second / 2, second / 2])
    }

    @Test("New targets after the start are checked at once, and those that are down need a passed check")
    func newTargets() {
        var scheduler = scheduler(2, configuration())
        // Known ones keep the state that their checks found.
        scheduler.setTargets(
            (1..<4).map { testIdentity($0) }, down: [testIdentity(1), testIdentity(2)], upstream: "api",
            configuration: configuration(), isStart: false, now: start)
        expect(scheduler.count, equals: 3)
        expect(scheduler.isUp(testIdentity(2)) == false && scheduler.isUp(testIdentity(0)) == nil)
        expect(scheduler.isUp(testIdentity(1)) == true && scheduler.isUp(testIdentity(3)) == true)
        let checks = scheduler.due(now: start)
        expect(Set(checks.map(\.target)), equals: [testIdentity(2), testIdentity(3)])
        let changes = checks.map { check in
            let isPassed = check.target == testIdentity(2)
            return scheduler.result(check, isPassed: isPassed, now: start, random: 0)
        }
        expect(Set(changes), equals: [.up, .down])
    }

    @Test("A check that could not be started changes no state and makes room")
    func cancelled() {
        var scheduler = scheduler(1, configuration())
        guard let check = scheduler.due(now: start).first else { return expect(Bool(false)) }
        scheduler.cancelled(check, now: start)
        expect(scheduler.isUp(testIdentity(0)) == true && !scheduler.isFirstRoundComplete(upstream: "api"))
        expect(nextTime(&scheduler), equals: start + 5 * second)
        expect(scheduler.result(check, isPassed: false, now: start, random: 0), equals: .unchanged)
        scheduler.cancelled(check, now: start)
        expect(nextTime(&scheduler), equals: start + 5 * second)
    }

    @Test("The first round takes at most 5 s, however long the interval is: the gateway is not ready before")
    func longInterval() {
        var scheduler = scheduler(10, configuration(interval: .seconds(3_600)))
        var checked: Set<TargetIdentity> = []
        for offset in 0..<10 as Range<UInt64> {
            checked.formUnion(scheduler.due(now: start + offset * second / 2).map(\.target))
            expect(checked.count == offset + 1)
        }
    }

    @Test("A reload keeps state and time of known targets, and results of removed ones are ignored")
    func reload() {
        var scheduler = scheduler(2, configuration())
        let checks = scheduler.due(now: start + 5 * second)
        expect(checks.count, equals: 2)
        expect(scheduler.result(checks[0], isPassed: false, now: start + 5 * second, random: middle), equals: .down)
        scheduler.setTargets(
            [checks[0].target], upstream: "api", configuration: configuration(), isStart: true, now: start + 6 * second)
        expect(scheduler.isUp(checks[0].target), equals: false)
        expect(
            scheduler.result(checks[1], isPassed: false, now: start + 6 * second, random: middle), equals: .unchanged)
        expect(scheduler.result(checks[0], isPassed: true, now: start + 6 * second, random: middle), equals: .unchanged)
        expect(nextTime(&scheduler), equals: start + 10 * second)
        // A shorter interval applies at once.
        scheduler.setTargets(
            [checks[0].target], upstream: "api", configuration: configuration(interval: .seconds(3)), isStart: false,
            now: start + 6 * second)
        expect(nextTime(&scheduler), equals: start + 6 * second)
        scheduler.setTargets([], upstream: "other", configuration: nil, isStart: false, now: start)
        expect(scheduler.count, equals: 1)
        scheduler.setTargets([checks[0].target], upstream: "api", configuration: nil, isStart: false, now: start)
        expect(scheduler.count == 0 && scheduler.due(now: .max).isEmpty && scheduler.nextDue == nil)
    }

    @Test("Checks of one upstream that hang leave each other upstream at least one at a time")
    func otherUpstreams() {
        var scheduler = scheduler(40, configuration(interval: .seconds(3_600), timeout: .seconds(3_600)))
        let now = start + 4_000 * second
        let hung = scheduler.due(now: now)
        expect(hung.count, equals: 32)
        let others = [testIdentity(0, upstream: "other"), testIdentity(1, upstream: "other")]
        scheduler.setTargets(others, upstream: "other", configuration: configuration(), isStart: false, now: now)
        for time in [now, now + 10 * second, now + 20 * second] {
            var checked: Set<TargetIdentity> = []
            for _ in others {
                let checks = scheduler.due(now: time)
                expect(checks.count, equals: 1)
                for check in checks { _ = scheduler.result(check, isPassed: true, now: time, random: middle) }
                checked.formUnion(checks.map(\.target))
            }
            expect(checked == Set(others) && scheduler.due(now: time).isEmpty)
        }
        expect(scheduler.isFirstRoundComplete(upstream: "other"))
        // Those of the first one begin when others of it have ended.
        for check in hung { scheduler.cancelled(check, now: now) }
        let rest = scheduler.due(now: now + 20 * second)
        expect(rest.count == 8 && rest.allSatisfy { $0.target.upstream == "api" })
    }

    @Test("At most 32 checks are in progress; each result makes room for one more")
    func concurrency() {
        var scheduler = scheduler(40, configuration())
        let checks = scheduler.due(now: start + 5 * second)
        expect(checks.count == 32 && scheduler.due(now: start + 5 * second).isEmpty)
        _ = scheduler.result(checks[0], isPassed: true, now: start + 5 * second, random: 0)
        let more = scheduler.due(now: start + 5 * second)
        expect(more.count == 1 && !checks.map(\.target).contains(more[0].target))
        // Removed targets make room too.
        scheduler.setTargets(
            (32..<40).map { testIdentity($0) }, upstream: "api", configuration: configuration(), isStart: false,
            now: start)
        expect(scheduler.due(now: start + 5 * second).count, equals: 7)
    }

    @Test("A check without a result is lost 1 s after its deadline, and the next one begins")
    func lost() {
        var scheduler = scheduler(1, configuration())
        let first = scheduler.due(now: start)
        expect(empty: scheduler.due(now: start + 3 * second - 1))
        let next = scheduler.due(now: start + 3 * second)
        expect(first.count == 1 && next.count == 1 && first != next)
        expect(scheduler.result(first[0], isPassed: false, now: start + 4 * second, random: 0), equals: .unchanged)
        expect(scheduler.result(next[0], isPassed: false, now: start + 4 * second, random: 0), equals: .down)
    }

    @Test("The first round is complete when each target of the upstream was checked")
    func firstRound() {
        var scheduler = scheduler(2, configuration())
        expect(!scheduler.isFirstRoundComplete(upstream: "api") && scheduler.isFirstRoundComplete(upstream: "other"))
        let checks = scheduler.due(now: start + 5 * second)
        _ = scheduler.result(checks[0], isPassed: false, now: start, random: 0)
        expect(!scheduler.isFirstRoundComplete(upstream: "api"))
        _ = scheduler.result(checks[1], isPassed: true, now: start, random: 0)
        expect(scheduler.isFirstRoundComplete(upstream: "api"))
    }

    @Test("Over an hour each target is checked once per interval")
    func fairness() {
        var scheduler = scheduler(20, configuration())
        var random = SeededGenerator(seed: 3)
        var counts: [TargetIdentity: Int] = [:]
        var now = start
        while now < start + 3_600 * second {
            for check in scheduler.due(now: now) {
                counts[check.target, default: 0] += 1
                _ = scheduler.result(check, isPassed: true, now: now, random: random.next())
            }
            now = max(scheduler.nextDue ?? .max, now + 1)
        }
        expect(counts.count == 20 && counts.values.allSatisfy { abs($0 - 720) < 15 })
    }
}
