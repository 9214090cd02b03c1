/// A rule that delays attempts counted under one key. Pure: the time is an argument.
///
/// An attempt counts as failed from the moment it is allowed. The state of a key can be deleted at ``end(of:)``, so a
/// store holds only the state of recent attempts.
public struct ThrottleRule: Sendable, Equatable {
    /// How long the next attempt waits after ``limit`` has been reached.
    public enum Delay: Sendable, Equatable {
        /// Until the window is over.
        case window
        /// A constant wait.
        case constant(Duration)
        /// A wait that doubles each time. The count is kept for `memory` after the last wait, so that waiting for a
        /// reset is no advantage.
        case doubling(first: Duration, longest: Duration, memory: Duration)
    }

    /// The number of failed attempts before the next one has to wait.
    public let limit: UInt32
    /// The period in which attempts are counted together.
    public let window: Duration
    /// How long the next attempt waits then.
    public let delay: Delay
    /// The maximum wait of an attempt. A state with a longer wait was written before the clock jumped back, or by a
    /// replica whose clock is far ahead; it delays no attempt.
    public let maxDelay: Duration

    /// Creates a rule.
    public init(limit: UInt32, window: Duration, delay: Delay, maxDelay: Duration) {
        self.limit = limit
        self.window = window
        self.delay = delay
        self.maxDelay = maxDelay
    }

    /// Returns how long an attempt has to wait; `nil` allows it.
    public func wait(_ state: ThrottleState?, now: Timestamp) -> Duration? {
        guard let state = current(state, now: now), now < state.notBefore else { return nil }
        return state.notBefore - now
    }

    /// Returns the state with one more attempt.
    public func recordingAttempt(_ state: ThrottleState?, now: Timestamp) -> ThrottleState {
        guard var state = current(state, now: now) else {
            return ThrottleState(count: 1, since: now, notBefore: next(count: 1, since: now, now: now))
        }
        // Replicas share the state; saturating is sufficient for all of them.
        state.count = state.count == .max ? .max : state.count + 1
        state.notBefore = next(count: state.count, since: state.since, now: now)
        return state
    }

    /// Returns the state with one attempt less: it did not fail, or its result is unknown.
    public func removingAttempt(_ state: ThrottleState?, now: Timestamp) -> ThrottleState? {
        guard var state = current(state, now: now), state.count > 1 else { return nil }
        state.count -= 1
        state.notBefore = min(state.notBefore, next(count: state.count, since: state.since, now: now))
        return state
    }

    /// Returns when a state has no effect any more.
    public func end(of state: ThrottleState) -> Timestamp {
        max(state.since + window, state.notBefore + (state.count >= limit ? memory : .zero))
    }

    /// Returns how long a store has to keep a state; not positive if it has expired. Bounded even if the clock jumps.
    public func lifetime(of state: ThrottleState, now: Timestamp) -> Duration {
        min(end(of: state) - now, window + maxDelay + memory)
    }

    private var memory: Duration {
        if case .doubling(_, _, let memory) = delay { memory } else { .zero }
    }

    /// Returns the effective state: `nil` if it has expired, and without times that only a clock error can explain.
    private func current(_ state: ThrottleState?, now: Timestamp) -> ThrottleState? {
        guard var state else { return nil }
        if state.since > now { state.since = now }
        if state.notBefore - now > maxDelay { state.notBefore = now }
        return now < end(of: state) ? state : nil
    }

    /// A time before any attempt. Not the time of the current attempt: one that began a moment earlier on another
    /// replica would have to wait for it.
    private static let always = Timestamp(milliseconds: 0)

    private func next(count: UInt32, since: Timestamp, now: Timestamp) -> Timestamp {
        guard count >= limit else { return Self.always }
        switch delay {
        case .window: return since + window
        case .constant(let duration): return now + duration
        case .doubling(let first, let longest, _):
            // 20 doublings exceed any practical limit.
            let doublings = min(count - limit, 20)
            return now + min(first * (1 << doublings), longest)
        }
    }
}
