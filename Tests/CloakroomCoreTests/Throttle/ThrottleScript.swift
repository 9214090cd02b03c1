import CloakroomCore

/// One name's history under a rule, on a clock that the test turns.
struct ThrottleScenario {
    let rule: ThrottleRule
    var now = Timestamp(seconds: 1_700_000_000)
    private(set) var state: ThrottleState?
    /// When a store may forget the state.
    private var forgetAt: Timestamp?

    init(_ scope: ThrottleKey.Scope) {
        rule = SignInThrottle.rule(scope)
    }

    /// What there is to wait at the moment; zero for nothing.
    var wait: Duration { rule.wait(kept, now: now) ?? .zero }

    /// Tries and fails, if that is allowed.
    /// - Returns: What there was to wait before.
    mutating func fail() -> Duration {
        let wait = wait
        guard wait == .zero else { return wait }
        keep(rule.recordingAttempt(kept, now: now))
        return .zero
    }

    /// Fails so many times without waiting.
    mutating func fail(times: Int) -> [Duration] { (0..<times).map { _ in fail() } }

    /// An attempt that was counted did not fail after all.
    mutating func takeBack() {
        state = rule.removingAttempt(kept, now: now)
        if let state { keep(state) }
    }

    mutating func pass(_ duration: Duration) { now = now + duration }

    /// A store forgets by its own clock, which goes on as this one does.
    private var kept: ThrottleState? {
        guard let forgetAt, now < forgetAt else { return nil }
        return state
    }

    private mutating func keep(_ new: ThrottleState) {
        state = new
        forgetAt = now + rule.lifetime(of: new, now: now)
    }
}
