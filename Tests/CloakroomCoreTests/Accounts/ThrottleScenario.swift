import CloakroomCore

/// The history of one key under a rule, on a clock that the test controls.
struct ThrottleScenario {
    let rule: ThrottleRule
    var now = SessionTime(seconds: 1_700_000_000)
    private(set) var state: ThrottleState?
    /// When a store may delete the state.
    private var forgetAt: SessionTime?

    init(_ scope: ThrottleKey.Scope) {
        rule = SignInThrottle.rule(scope)
    }

    /// The current wait; zero for none.
    var wait: Duration { rule.wait(kept, now: now) ?? .zero }

    /// Makes a failing attempt if it is allowed.
    /// - Returns: The wait before it.
    mutating func fail() -> Duration {
        let wait = wait
        guard wait == .zero else { return wait }
        keep(rule.recordingAttempt(kept, now: now))
        return .zero
    }

    /// Makes `times` failing attempts without waiting.
    mutating func fail(times: Int) -> [Duration] { (0..<times).map { _ in fail() } }

    /// Removes a counted attempt that did not fail.
    mutating func takeBack() {
        state = rule.removingAttempt(kept, now: now)
        if let state { keep(state) }
    }

    mutating func pass(_ duration: Duration) { now = now + duration }

    /// The stored state. The store's clock advances with this one.
    private var kept: ThrottleState? {
        guard let forgetAt, now < forgetAt else { return nil }
        return state
    }

    private mutating func keep(_ new: ThrottleState) {
        state = new
        forgetAt = now + rule.lifetime(of: new, now: now)
    }
}
