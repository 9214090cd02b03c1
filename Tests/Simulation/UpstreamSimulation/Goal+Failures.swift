import CloakroomCore
import TestSupport

extension Goal {
    var failureScenario: Scenario {
        switch self {
        case .failingTarget:
            var scenario = Scenario(duration: 15)
            scenario.incidents = [Incident(3, .fails, 2..<15)]
            return scenario
        case .hangingTarget:
            var scenario = Scenario(duration: 36)
            scenario.incidents = [Incident(3, .hangs, 3..<33)]
            scenario.headTimeout = .seconds(10)
            return scenario
        case .flappingTarget, .flappingTargetWithRetries:
            var scenario = Scenario(duration: 30)
            scenario.incidents = [Incident(3, .fails, 2..<12), Incident(3, .fails, 22..<32)]
            scenario.eject = .defaults
            if self == .flappingTargetWithRetries { scenario.retry = RetryConfiguration(statuses: [503]) }
            return scenario
        case .ejectedTarget:
            var scenario = Scenario(rate: 200, duration: 45)
            scenario.incidents = [Incident(3, .fails, 5..<20)]
            scenario.balance.policy = .roundRobin
            scenario.eject = .defaults
            return scenario
        case .unreachableTarget:
            var scenario = Scenario(rate: 200, duration: 60)
            scenario.incidents = [Incident(3, .unreachable, 5..<25)]
            scenario.eject = .defaults
            scenario.retry = RetryConfiguration()
            return scenario
        default:
            let rate = self == .failingUpstream ? 1_000.0 : 200
            var scenario = Scenario(rate: rate, duration: 26)
            scenario.incidents = scenario.weights.indices.map { Incident($0, .fails, 3..<23) }
            scenario.eject = .defaults
            scenario.retry = RetryConfiguration(statuses: [503])
            return scenario
        }
    }

    func checkFailures(_ report: inout Report, _ scenario: Scenario) {
        let outcome = report.outcome
        let all = 0..<scenario.duration
        switch self {
        case .failingTarget:
            let share = Double(report.failures(in: 2..<15)) / Double(outcome.records(in: 2..<15).count)
            report.expect(share, atMost: 0.000_5, "the share of failed requests")
        case .hangingTarget:
            report.expect(Double(report.failures(in: all)), atMost: 10, "the number of failed requests")
        case .flappingTarget:
            let share = Double(report.failures(in: all)) / Double(outcome.records.count)
            report.expect(share, atMost: 0.000_5, "the share of failed requests")
        case .flappingTargetWithRetries:
            report.expect(Double(report.failures(in: all)), atMost: 0, "the number of failed requests")
        case .ejectedTarget:
            // Five in a row, those in flight, and a probe.
            report.expect(Double(report.failures(in: all)), atMost: 8, "the number of failed requests")
            report.expect(outcome.share(of: 3, in: 37..<45), atLeast: 0.08, "its share at the end")
        case .unreachableTarget:
            report.expect(Double(report.failures(in: all)), atMost: 0, "the number of failed requests")
            report.expect(outcome.share(of: 3, in: 45..<60), atLeast: 0.04, "its share after 20 s")
        default:
            checkRetries(&report, scenario)
            report.expect(Double(report.failures(in: 24..<26)), atMost: 0, "the number of failures after a second")
        }
    }

    /// Retries ≤ 0.1 · requests + 3 · seconds + cap.
    private func checkRetries(_ report: inout Report, _ scenario: Scenario) {
        let requests = Double(report.outcome.records(in: 3..<23).count)
        let sent = Double(report.outcome.attempts.count { (3_000_000_000..<23_000_000_000).contains($0.time) })
        let cap = max(0.1 * scenario.rate * 1.2 + 3, 10)
        report.expect(sent - requests, atMost: 0.1 * requests + 3 * 20 + cap, "the number of retries")
        report.expect(sent - requests, atLeast: 0.09 * requests, "the number of retries")
    }
}
