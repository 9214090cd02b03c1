import CloakroomCore

extension Goal {
    var loadScenario: Scenario {
        switch self {
        case .highLoad: return Scenario(rate: 9_920, duration: 3)
        case .heavyTarget, .canary:
            var scenario = Scenario(duration: 11)
            scenario.weights = self == .canary ? [990, 10] : [400, 100, 100, 100, 100]
            return scenario
        case .slowStart:
            var scenario = Scenario(targets: 12, duration: 14)
            scenario.incidents = Self.newTargets.map { Incident($0, .absent, 0..<4) }
            scenario.balance.slowStart = .seconds(10)
            return scenario
        case .unequalLoops:
            var scenario = Scenario(rate: 9_920, duration: 2)
            scenario.pool.maxConnections = 160
            scenario.shareOfFirstLoop = 0.4
            scenario.deadLeases = 20
            return scenario
        default:
            var scenario = Scenario(targets: 2, rate: 1.3 * 3_200, duration: 4)
            scenario.loops = 4
            // More connections than workers, so that all workers are used; and a queue that patience alone limits.
            scenario.pool.maxConnections = 48
            scenario.pool.maxPending = 10_000
            return scenario
        }
    }

    func checkLoad(_ report: inout Report, _ scenario: Scenario, _ seed: UInt64) {
        let outcome = report.outcome
        if self != .overload { report.expect(report.failures(in: 0..<scenario.duration) == 0, "requests failed") }
        switch self {
        case .highLoad:
            let seconds = 1..<scenario.duration
            let ratio = outcome.latency(99, in: seconds) / outcome.bestLatency(99, in: seconds)
            report.expect(ratio, atMost: 1.1, "the 99th percentile relative to that of idle targets")
            for target in scenario.weights.indices {
                let share = outcome.share(of: target, in: seconds)
                report.expect((0.05...0.15).contains(share), "the share of target \(target) is \(share)")
            }
        case .heavyTarget:
            let share = outcome.share(of: 0, in: 1..<scenario.duration)
            report.expect(abs(share - 0.5), atMost: 0.02, "the deviation from the share of 0.5")
        case .canary:
            let share = outcome.share(of: 0, in: 1..<scenario.duration)
            report.expect(abs(share - 0.99), atMost: 0.005, "the deviation from the share of 0.99")
        case .slowStart:
            let deviations = (0..<10).map { second in
                let line = (Double(second) + 0.5) / 10
                return abs(Self.relativeShare(outcome, second: second + 4) - line)
            }
            report.expect(deviations.reduce(0, +) / 10, atMost: 0.2, "the average deviation from the line")
        case .unequalLoops: break
        default:
            let served = outcome.records.count { $0.ending == .succeeded && $0.latency <= 500_000_000 }
            let share = Double(served) / Double(outcome.records.count)
            report.expect(share, atLeast: 0.75, "the share of requests with a response within 500 ms")
        }
    }

    /// Several, because the shares of targets that are alike vary with their estimates.
    private static let newTargets = [3, 6, 9]

    /// The average share of the new targets in a second, divided by that of the others.
    private static func relativeShare(_ outcome: Outcome, second: Int) -> Double {
        let seconds = Double(second)..<Double(second) + 1
        let new = newTargets.reduce(0) { $0 + outcome.share(of: $1, in: seconds) }
        return new / 3 / ((1 - new) / 9)
    }
}
