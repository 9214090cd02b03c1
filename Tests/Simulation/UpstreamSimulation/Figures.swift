import CloakroomCore

/// Figures for the pictures of the documentation, as CSV.
public enum Figures {
    /// Latency over time with a slow target, for each policy: policy, second, median and 99th percentile in
    /// milliseconds, share of the slow target.
    /// - Parameter seconds: The duration; the target is slow from 5 s to 20 s.
    public static func latency(seconds: Int, seed: UInt64) -> String {
        var lines = ["policy,second,median_ms,p99_ms,share_of_slow"]
        for policy in BalanceConfiguration.Policy.allCases {
            var scenario = Goal.slowTarget.scenario
            scenario.duration = Double(seconds)
            scenario.incidents = [Incident(3, .slow(100), 5..<20)]
            scenario.balance.policy = policy
            let outcome = Simulation.run(scenario, seed: seed)
            for second in 0..<seconds {
                let range = Double(second)..<Double(second) + 1
                let values = [outcome.latency(50, in: range) * 1e3, outcome.latency(99, in: range) * 1e3]
                lines.append(
                    "\(policy.rawValue),\(second),\(rounded(values[0])),\(rounded(values[1])),"
                        + "\(rounded(outcome.share(of: 3, in: range)))")
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// Shares of targets with the weights 4:1:1:1:1; the heavy one is 10 times slower in the second half: second,
    /// target, share.
    public static func shares(seconds: Int, seed: UInt64) -> String {
        var scenario = Goal.slowHeavyTarget.scenario
        scenario.duration = Double(seconds)
        scenario.incidents = [Incident(0, .slow(10), Double(seconds) / 2..<Double(seconds))]
        let outcome = Simulation.run(scenario, seed: seed)
        var lines = ["second,target,share"]
        for second in 0..<seconds {
            for target in scenario.weights.indices {
                let share = outcome.share(of: target, in: Double(second)..<Double(second) + 1)
                lines.append("\(second),\(target),\(rounded(share))")
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func rounded(_ value: Double) -> Double {
        (value * 10_000).rounded() / 10_000
    }
}
