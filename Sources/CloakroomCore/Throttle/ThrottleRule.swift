/// How attempts that are counted under one name are held back. Pure: the time is an argument.
///
/// An attempt counts as failed from the moment it is let through. What is kept of a name can be forgotten at
/// ``end(of:)``, so a store holds no more than was tried lately.
public struct ThrottleRule: Sendable, Equatable {
    /// How long the next attempt waits once ``limit`` has been reached.
    public enum Delay: Sendable, Equatable {
        /// Until the window is over.
        case window
        /// The same each time.
        case constant(Duration)
        /// Twice as long each time. The count is kept for `memory` after the last wait: it must not pay to wait for that.
        case doubling(first: Duration, longest: Duration, memory: Duration)
    }

    /// How many attempts may fail before the next one waits.
    public let limit: UInt32
    /// How long attempts are counted together.
    public let window: Duration
    /// How long the next attempt waits then.
    public let delay: Delay
    /// No attempt is told to wait longer. A state that says so was written by a clock that has jumped back since, or by
    /// a replica whose clock is far ahead; it holds nobody back.
    public let maxDelay: Duration

    /// Makes a rule.
    public init(limit: UInt32, window: Duration, delay: Delay, maxDelay: Duration) {
        self.limit = limit
        self.window = window
        self.delay = delay
        self.maxDelay = maxDelay
    }

    /// How long an attempt has to wait; `nil` lets it through.
    public func wait(_ state: ThrottleState?, now: Timestamp) -> Duration? {
        guard let state = current(state, now: now), now < state.notBefore else { return nil }
        return state.notBefore - now
    }

    /// The state with one attempt more.
    public func recordingAttempt(_ state: ThrottleState?, now: Timestamp) -> ThrottleState {
        guard var state = current(state, now: now) else {
            return ThrottleState(count: 1, since: now, notBefore: next(count: 1, since: now, now: now))
        }
        // Replicas share it: one that saturates is as good as one that goes on.
        state.count = state.count == .max ? .max : state.count + 1
        state.notBefore = next(count: state.count, since: state.since, now: now)
        return state
    }

    /// The state with one attempt less: it did not fail, or nobody learned whether it did.
    public func removingAttempt(_ state: ThrottleState?, now: Timestamp) -> ThrottleState? {
        guard var state = current(state, now: now), state.count > 1 else { return nil }
        state.count -= 1
        state.notBefore = min(state.notBefore, next(count: state.count, since: state.since, now: now))
        return state
    }

    /// When a state says nothing any more.
    public func end(of state: ThrottleState) -> Timestamp {
        max(state.since + window, state.notBefore + (state.count >= limit ? memory : .zero))
    }

    /// How long a store has to keep a state; not positive if it is over. Bounded, wherever the clock jumps.
    public func lifetime(of state: ThrottleState, now: Timestamp) -> Duration {
        min(end(of: state) - now, window + maxDelay + memory)
    }

    private var memory: Duration {
        if case .doubling(_, _, let memory) = delay { memory } else { .zero }
    }

    /// The state as it stands now: `nil` if it is over, and with no time in it that the clock cannot have meant.
    private func current(_ state: ThrottleState?, now: Timestamp) -> ThrottleState? {
        guard var state else { return nil }
        if state.since > now { state.since = now }
        if state.notBefore - now > maxDelay { state.notBefore = now }
        return now < end(of: state) ? state : nil
    }

    /// Before any time. Not the time of the attempt: one that began a moment earlier elsewhere would have to wait for it.
    private static let always = Timestamp(milliseconds: 0)

    private func next(count: UInt32, since: Timestamp, now: Timestamp) -> Timestamp {
        guard count >= limit else { return Self.always }
        switch delay {
        case .window: return since + window
        case .constant(let duration): return now + duration
        case .doubling(let first, let longest, _):
            // Far fewer doublings reach any limit that a person would live to see.
            let doublings = min(count - limit, 20)
            return now + min(first * (1 << doublings), longest)
        }
    }
}
