import CloakroomCore

/// What has to hold for every seed.
public enum Goal: String, Sendable, CaseIterable {
    /// A target that is 100 times slower for 15 s does not slow requests down, and gets its share again.
    case slowTarget
    /// The same with 20 requests per second.
    case slowTargetWithFewRequests
    /// A target that fails faster than the others respond gets few requests, without ejection and retries.
    case failingTarget
    /// A target that does not respond for 30 s gets few requests, without ejection and retries.
    case hangingTarget
    /// A target that fails every other 10 s causes few failures.
    case flappingTarget
    /// The same with retries: none.
    case flappingTargetWithRetries
    /// A target that was ejected gets its share again.
    case ejectedTarget
    /// A target that cannot be connected to causes no failure, and gets its share again.
    case unreachableTarget
    /// While all targets fail, retries are limited; afterwards nothing fails.
    case failingUpstream
    /// The same with 200 requests per second.
    case failingUpstreamWithFewRequests
    /// One of two targets is 10 times slower.
    case slowHalf
    /// All targets are alike, and busy.
    case highLoad
    /// One of five targets has four times the weight of the others.
    case heavyTarget
    /// The same, and this target is 10 times slower.
    case slowHeavyTarget
    /// A target has 1 % of the weight.
    case canary
    /// A new target gets its share gradually.
    case slowStart
    /// Event loops have unequal numbers of requests, and one has connections that it never gets back.
    case unequalLoops
    /// More requests arrive than targets can process.
    case overload

    /// Runs the scenario of the goal.
    /// - Returns: How the goal is missed; empty if it is reached.
    public func violations(seed: UInt64, bug: InjectedBug? = nil) -> [String] {
        let scenario = scenario
        let outcome = Simulation.run(scenario, seed: seed, bug: bug)
        var report = Report(outcome)
        report.check(scenario)
        check(&report, scenario, seed)
        return report.violations
    }

    /// The scenario of the goal.
    public var scenario: Scenario {
        switch self {
        case .slowTarget, .slowTargetWithFewRequests, .slowHalf, .slowHeavyTarget: slowScenario
        case .failingTarget, .hangingTarget, .flappingTarget, .flappingTargetWithRetries, .ejectedTarget,
            .unreachableTarget, .failingUpstream, .failingUpstreamWithFewRequests:
            failureScenario
        case .highLoad, .heavyTarget, .canary, .slowStart, .unequalLoops, .overload: loadScenario
        }
    }

    private func check(_ report: inout Report, _ scenario: Scenario, _ seed: UInt64) {
        switch self {
        case .slowTarget, .slowTargetWithFewRequests, .slowHalf, .slowHeavyTarget: checkSlow(&report, scenario, seed)
        case .failingTarget, .hangingTarget, .flappingTarget, .flappingTargetWithRetries, .ejectedTarget,
            .unreachableTarget, .failingUpstream, .failingUpstreamWithFewRequests:
            checkFailures(&report, scenario)
        case .highLoad, .heavyTarget, .canary, .slowStart, .unequalLoops, .overload:
            checkLoad(&report, scenario, seed)
        }
    }
}

/// Collects the violations of a goal.
struct Report {
    let outcome: Outcome
    var violations: [String] = []

    init(_ outcome: Outcome) {
        self.outcome = outcome
    }

    mutating func expect(_ isTrue: Bool, _ text: @autoclosure () -> String) {
        if !isTrue { violations.append(text()) }
    }

    mutating func expect(_ value: Double, atMost limit: Double, _ name: String) {
        expect(value <= limit, "\(name) is \(value), more than \(limit)")
    }

    mutating func expect(_ value: Double, atLeast limit: Double, _ name: String) {
        expect(value >= limit, "\(name) is \(value), less than \(limit)")
    }

    /// What holds in every scenario.
    mutating func check(_ scenario: Scenario) {
        let outcome = outcome
        expect(outcome.unfinished == scenario.deadLeases, "\(outcome.unfinished) requests never ended")
        expect(
            outcome.countedInFlight == scenario.deadLeases,
            "targets count \(outcome.countedInFlight) requests in flight at the end")
        expect(
            outcome.mostConnections <= scenario.pool.maxConnections, "there were \(outcome.mostConnections) connections"
        )
        expect(outcome.records.count > 100, "there were \(outcome.records.count) requests only")
    }

    /// The number of requests of a period that did not succeed.
    func failures(in seconds: Range<Double>) -> Int {
        outcome.count(of: [.failed, .timedOut, .rejected], in: seconds)
    }
}
