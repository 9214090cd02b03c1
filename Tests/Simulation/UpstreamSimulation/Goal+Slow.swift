import CloakroomCore

extension Goal {
    var slowScenario: Scenario {
        switch self {
        case .slowTargetWithFewRequests:
            var scenario = Scenario(rate: 20, duration: 110)
            scenario.incidents = [Incident(3, .slow(100), 10..<110)]
            return scenario
        case .slowHalf:
            var scenario = Scenario(targets: 2, rate: 0.6 * 1_760, duration: 10)
            scenario.incidents = [Incident(1, .slow(10), 2..<10)]
            return scenario
        case .slowHeavyTarget:
            var scenario = Scenario(duration: 10)
            scenario.weights = [400, 100, 100, 100, 100]
            scenario.incidents = [Incident(0, .slow(10), 2..<10)]
            return scenario
        default:
            var scenario = Scenario(duration: 43)
            scenario.incidents = [Incident(3, .slow(100), 3..<18)]
            return scenario
        }
    }

    func checkSlow(_ report: inout Report, _ scenario: Scenario, _ seed: UInt64) {
        let outcome = report.outcome
        report.expect(report.failures(in: 0..<scenario.duration) == 0, "requests failed")
        switch self {
        case .slowTargetWithFewRequests:
            let seconds = 10.0..<110.0
            let ratio = outcome.latency(99, in: seconds) / outcome.bestLatency(99, in: seconds)
            report.expect(ratio, atMost: 1.5, "the 99th percentile relative to that of healthy targets")
        case .slowHalf:
            var other = scenario
            other.balance.policy = .roundRobin
            let seconds = 2.0..<10.0
            let ratio = outcome.latency(99, in: seconds) / Simulation.run(other, seed: seed).latency(99, in: seconds)
            report.expect(ratio, atMost: 0.35, "the 99th percentile relative to that of round robin")
        case .slowHeavyTarget:
            report.expect(outcome.share(of: 0, in: 4..<10), atMost: 0.16, "the share of the slow target")
            report.expect(outcome.latency(99, in: 4..<10), atMost: 0.3, "the 99th percentile")
        default:
            let seconds = 3.0..<18.0
            let ratio = outcome.latency(99, in: seconds) / outcome.bestLatency(99, in: seconds)
            report.expect(ratio, atMost: 1.15, "the 99th percentile relative to that of healthy targets")
            report.expect(outcome.share(of: 3, in: seconds), atMost: 0.001, "the share of the slow target")
            let back = (18...40).first { outcome.share(of: 3, in: Double($0)..<Double($0) + 3) >= 0.08 }
            report.expect(Double(back ?? 99) - 18, atMost: 22, "the number of seconds until it has its share again")
        }
    }
}
