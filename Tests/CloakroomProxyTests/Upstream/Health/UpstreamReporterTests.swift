import CloakroomCore
import CloakroomTelemetry
import TestSupport
import Testing

@testable import CloakroomProxy

private let second: UInt64 = 1_000_000_000

@Suite("Lines about upstreams")
struct UpstreamReporterTests {
    private let log = RecordedLog()
    private let upstream: UpstreamRuntime
    private let config: ConfigSnapshot

    init() throws {
        config = try GatewaySetup().targets(.http("127.0.0.1", 1), .http("127.0.0.1", 2)).makeConfig()
        upstream = try require(config.upstreams.first)
    }

    private var reporter: UpstreamReporter { UpstreamReporter(log.logger) }
    private func target(_ index: Int) -> TargetIdentity { upstream.targets.targets.targets[index].state.identity }
    private var events: [String] { log.all.compactMap { $0["event"] } }

    private func change(
        _ reporter: inout UpstreamReporter, _ index: Int = 0, from: TargetCondition, to: TargetCondition, at now: UInt64
    ) {
        reporter.report(.condition(target(index), from: from, to: to), of: upstream, now: now)
    }

    @Test("Each change has an event and a message of its own; returns are notices")
    func lines() {
        var reporter = reporter
        change(&reporter, from: .up, to: .down, at: 0)
        change(&reporter, from: .down, to: .warming, at: 0)
        change(&reporter, from: .warming, to: .up, at: 0)
        reporter.report(.ejected(target(1), .share, milliseconds: 10_500), of: upstream, now: 0)
        change(&reporter, 1, from: .up, to: .ejected, at: 0)
        change(&reporter, 1, from: .ejected, to: .up, at: 0)
        reporter.report(.panicStarted, of: upstream, now: 0)
        reporter.report(.panicEnded, of: upstream, now: 0)
        reporter.report(.budgetSpent, of: upstream, now: 0)
        reporter.report(.budgetAvailable, of: upstream, now: 0)
        reporter.addressesChanged(of: upstream, now: 0)
        reporter.addressesHidden(7, of: upstream, now: 0)
        expect(
            events,
            equals: [
                "upstream_down", "upstream_up", "upstream_ejected", "upstream_returned", "upstream_panic",
                "upstream_panic",
                "upstream_budget_spent", "upstream_dns_changed", "upstream_addresses_hidden",
            ])
        let levels = log.all.map { $0["level"] }
        expect(
            levels,
            equals: ["warning", "notice", "warning", "notice", "warning", "notice", "warning", "notice", "warning"])
        expect(Set(log.all.map { $0["message"] }).count, equals: 9)
        expect(log.all[0]["reason"] == "down" && log.all[0]["target"] == "http://127.0.0.1:1")
        expect(log.all[0]["upstream"], equals: "api")
        expect(log.all[2]["reason"] == "share" && log.all[2]["seconds"] == "10.5")
        expect(log.all[4]["outcome"] == "started" && log.all[5]["outcome"] == "ended")
        let ejections = #"ejections_total{reason="share",target="http://127.0.0.1:2",upstream="api"} 1"#
        expect(String(decoding: config.telemetry.registry.exposition(), as: UTF8.self).contains(ejections))
    }

    @Test("A state that the limit has suppressed is logged after the minute, once, if it still is the state")
    func lastState() {
        var reporter = reporter
        change(&reporter, from: .up, to: .backingOff, at: 0)
        change(&reporter, from: .backingOff, to: .up, at: 5 * second)
        change(&reporter, from: .up, to: .backingOff, at: 10 * second)
        expect(events, equals: ["upstream_down", "upstream_up"])
        for time in 11..<60 as Range<UInt64> { reporter.flush(upstream, now: time * second) }
        expect(events.count, equals: 2)
        for time in 60..<90 as Range<UInt64> { reporter.flush(upstream, now: time * second) }
        expect(events, equals: ["upstream_down", "upstream_up", "upstream_down"])
        expect(log.all.last?["reason"], equals: "backing_off")
        // Another target has a limit of its own.
        change(&reporter, 1, from: .up, to: .down, at: 90 * second)
        expect(log.all.last?["target"], equals: "http://127.0.0.1:2")
    }

    @Test("A state that ended before the minute has passed is not logged")
    func shortState() {
        var reporter = reporter
        change(&reporter, from: .up, to: .down, at: 0)
        change(&reporter, from: .down, to: .up, at: second)
        change(&reporter, from: .up, to: .down, at: 2 * second)
        change(&reporter, from: .down, to: .up, at: 3 * second)
        for time in 4..<130 as Range<UInt64> { reporter.flush(upstream, now: time * second) }
        expect(events, equals: ["upstream_down", "upstream_up"])
    }

    @Test("An ejection that ended before the next tick leaves no target that seems ejected")
    func shortEjection() {
        var reporter = reporter
        reporter.report(.ejected(target(0), .consecutive, milliseconds: 10), of: upstream, now: 0)
        reporter.flush(upstream, now: 0)
        expect(events, equals: ["upstream_ejected", "upstream_returned"])
    }

    @Test("The last line about panic is its present state too")
    func panic() {
        var reporter = reporter
        for time in 0..<3 as Range<UInt64> {
            reporter.report(.panicStarted, of: upstream, now: time * second)
            reporter.report(.panicEnded, of: upstream, now: time * second)
        }
        expect(events.count, equals: 2)
        reporter.report(.panicStarted, of: upstream, now: 4 * second)
        reporter.flush(upstream, now: 59 * second)
        expect(events.count, equals: 2)
        reporter.flush(upstream, now: 60 * second)
        expect(log.all.last?["outcome"] == "started" && events.count == 3)
    }

    @Test("Targets that are removed or drained are not reported as down, and a new one begins without history")
    func removed() {
        var reporter = reporter
        change(&reporter, from: .up, to: .draining, at: 0)
        expect(empty: events)
        change(&reporter, from: .draining, to: .up, at: 0)
        expect(empty: events)
        change(&reporter, from: .up, to: .down, at: 0)
        reporter.report(.removed(target(0)), of: upstream, now: 0)
        reporter.flush(upstream, now: 0)
        change(&reporter, from: .up, to: .down, at: 0)
        expect(events, equals: ["upstream_down", "upstream_down"])
        reporter.forget("api")
        // A new target that was down until its first check.
        change(&reporter, from: .down, to: .up, at: 0)
        expect(log.all.last?["event"] == "upstream_up" && log.all.last?["reason"] == "down")
    }

    @Test("A health check that fails in the same way is logged once; all are counted")
    func checks() {
        var reporter = reporter
        func check(_ outcome: HealthCheck.Outcome, isPassed: Bool = false, at time: UInt64) {
            reporter.checked(target(0), outcome, isPassed: isPassed, of: upstream, now: time * second)
        }
        check(.status(503), at: 0)
        check(.status(503), at: 100)
        check(.timeout, at: 200)
        check(.status(200), isPassed: true, at: 300)
        check(.status(503), at: 400)
        expect(
            log.lines("event", "upstream_check_failed").map { $0["reason"] ?? "" },
            equals: [
                "status 503", "no response in time", "status 503",
            ])
        let text = String(decoding: config.telemetry.registry.exposition(), as: UTF8.self)
        for (outcome, count) in [("failed", 3), ("timeout", 1), ("passed", 1), ("unreachable", 0)] {
            let labels = #"outcome="\#(outcome)",target="http://127.0.0.1:1",upstream="api""#
            expect(text.contains("cloakroom_upstream_checks_total{\(labels)} \(count)\n"), "\(outcome)")
        }
    }

    @Test("If no target passes its first check, the line lists what to compare")
    func firstRound() {
        let cases: [(HealthCheck.Outcome, HealthCheck.Outcome, Bool, String?)] = [
            (.status(404), .status(404), false, "each target: status 404"),
            (.status(404), .timeout, false, "status 404"),
            (.status(404), .status(200), true, nil),
        ]
        for (one, other, isPassed, reason) in cases {
            var reporter = reporter
            reporter.checked(target(0), one, isPassed: false, of: upstream, now: 0)
            reporter.checked(target(1), other, isPassed: isPassed, of: upstream, now: 0)
            let before = log.lines("event", "upstream_checks_failed").count
            reporter.firstRoundEnded(of: upstream, now: 0)
            let lines = log.lines("event", "upstream_checks_failed").dropFirst(before)
            expect(lines.map { $0["reason"] }, equals: reason.map { [$0] } ?? [])
            if one == other { expect(lines.first?["hint"]?.contains("health.path"), equals: true) }
        }
    }
}
