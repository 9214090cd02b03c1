public import CloakroomWire

/// Why a request could be sent again. The raw value is the value of labels and log fields.
public enum RetryReason: String, Sendable, CaseIterable {
    /// No connection was established.
    case connect
    /// The target did not process the request: `REFUSED_STREAM`, or a stream above the last one of `GOAWAY`
    /// (RFC 9113 §8.7).
    case refused
    /// A reused connection was closed before a response (RFC 9112 §9.3.1).
    case stale
    /// The connection or stream was reset before the response head.
    case reset
    /// A response status of ``RetryConfiguration/statuses``.
    case status
    /// No response head within ``RetryConfiguration/attemptTimeout``.
    case attemptTimeout = "attempt_timeout"
}

/// Why a request is not sent again. The raw value is the value of log fields.
public enum RetryObstacle: String, Sendable, CaseIterable {
    /// The configuration or the route disables retries after this failure.
    case notConfigured = "not_configured"
    /// Bytes of a response, informational ones included, were sent to the client.
    case responseStarted = "response_started"
    case tunnel
    /// The body is not completely buffered.
    case bodyNotBuffered = "body_not_buffered"
    /// The method is not sent again after this failure.
    case method
    /// The target asked for a delay by `Retry-After`.
    case retryAfter = "retry_after"
    /// The maximum number of attempts was made.
    case attempts
    /// Less than 100 ms are left until the deadline.
    case deadline
    case noBudget = "no_budget"
    /// There is no target to send it to.
    case noTarget = "no_target"
}

/// Targets that a request can be sent to again.
public enum RetryTargets: Sendable {
    /// A usable target that was not tried.
    case other
    /// Only targets that were tried.
    case tried
    case none
}

/// Whether, where and when a failed request is sent again.
public enum RetryDecision: Sendable, Equatable {
    /// Send it to a target that was not tried, at once. The tokens of the retry have been taken.
    case retryOther(RetryReason)
    /// Send it on a new connection, at once, to any target: the target only ended a connection in order, so it did not
    /// fail.
    case retryFresh(RetryReason)
    /// Send it on a new connection, after a delay in nanoseconds. Targets that were tried may be selected again: none
    /// of the others is usable.
    case retryAny(RetryReason, delay: UInt64)
    /// Pass the failure on; `reason` is `nil` if it is none of the failures after which requests are sent again.
    case pass(RetryObstacle, reason: RetryReason?)

    /// The failure of an attempt.
    public enum Failure: Sendable, Equatable {
        /// As the ``RetryReason`` of the same name.
        case connect, refused, stale, reset
        /// A response status, which may have come with `Retry-After`.
        case status(Int, hasRetryAfter: Bool)
        /// No response head within the time for an attempt.
        case attemptTimeout
    }

    /// What is known about a failed request.
    public struct Situation: Sendable {
        /// The failure.
        public var failure: Failure
        /// The method.
        public var method: RequestMethod
        /// How often it was sent, from 1. A replay after status 401 does not count.
        public var attempts: Int
        /// How often it was sent, replays after status 401 included.
        public var sends: Int
        /// Nanoseconds until the deadline of the response head.
        public var remaining: UInt64
        /// Whether a byte of a response reached the client.
        public var isResponseStarted = false
        /// Whether it is a tunnel.
        public var isTunnel = false
        /// Whether the whole body is buffered, or there is none.
        public var isBodyBuffered = true
        /// Whether the target is known to be well: it ended a connection in order, and announced what it has not
        /// processed (RFC 9113 §6.8). Servers do that after a number of requests, with dozens of others in flight.
        public var isTargetWell = false
        /// Whether it is a gRPC call.
        public var isCall = false
        /// Whether the route permits retries.
        public var isPermitted = true
        /// The targets.
        public var targets: RetryTargets = .other

        /// Creates a situation; the other properties have the values of a simple request.
        public init(
            _ failure: Failure, method: RequestMethod, attempts: Int = 1, sends: Int = 1, remaining: UInt64 = .max
        ) {
            self.failure = failure
            self.method = method
            self.attempts = attempts
            self.sends = sends
            self.remaining = remaining
        }
    }

    /// Whether the request is sent again.
    public var isRetry: Bool {
        if case .pass = self { false } else { true }
    }

    /// Maximum number of times that a request is sent, replays after status 401 included.
    public static let maxSends = 4

    /// Decides about a failed request. Takes the tokens of the retry, if it is one that is charged.
    /// - Parameter random: Random bits for the delay.
    public static func decide(
        _ situation: Situation, _ configuration: RetryConfiguration, budget: RetryBudget, random: UInt64
    ) -> RetryDecision {
        guard let reason = reason(for: situation.failure, configuration) else {
            return .pass(.notConfigured, reason: nil)
        }
        if let obstacle = obstacle(situation, reason, configuration) { return .pass(obstacle, reason: reason) }
        if situation.targets == .none { return .pass(.noTarget, reason: reason) }
        // Taken last: a retry that is not sent costs nothing.
        // So is the first one after GOAWAY; a target that sends it to each connection must not multiply the requests.
        let isFree = isFree(reason) || situation.isTargetWell && situation.sends <= 1
        guard isFree || budget.take() else { return .pass(.noBudget, reason: reason) }
        // A connection that was closed in order is no failure of the target.
        if reason == .stale || situation.isTargetWell { return .retryFresh(reason) }
        if situation.targets == .other { return .retryOther(reason) }
        let delay = minDelay + ((random >> 32) * (maxDelay - minDelay)) >> 32
        return .retryAny(reason, delay: min(delay, situation.remaining - minRemaining))
    }

    /// Whether requests with a method are sent again for a reason, as far as the method decides: a target may have
    /// processed the request, unless the reason excludes it.
    /// - Parameter isCall: Whether it is a gRPC call. Its method is always POST, so it does not indicate whether the call
    ///   can be repeated.
    public static func isRepeatable(
        _ method: RequestMethod, after reason: RetryReason, isCall: Bool, _ configuration: RetryConfiguration
    ) -> Bool {
        switch reason {
        case .connect, .refused: true
        case .stale: !isCall && method.isIdempotent
        case .reset, .status, .attemptTimeout: !isCall && configuration.methods.contains(method)
        }
    }

    /// Nanoseconds that a retry needs at least.
    public static let minRemaining: UInt64 = 100_000_000
    static let minDelay: UInt64 = 25_000_000
    static let maxDelay: UInt64 = 250_000_000

    /// Retries that are not charged to the budget: a target that was not connected to got no request, and one that
    /// closes idle connections is not overloaded.
    private static func isFree(_ reason: RetryReason) -> Bool {
        reason == .connect || reason == .stale
    }

    private static func reason(for failure: Failure, _ configuration: RetryConfiguration) -> RetryReason? {
        switch failure {
        case .connect: .connect
        case .refused: .refused
        case .stale: .stale
        case .reset: .reset
        case .status(let status, _): configuration.statuses.contains(status) ? .status : nil
        case .attemptTimeout: configuration.attemptTimeout > .zero ? .attemptTimeout : nil
        }
    }

    private static func obstacle(
        _ situation: Situation, _ reason: RetryReason, _ configuration: RetryConfiguration
    ) -> RetryObstacle? {
        if !situation.isPermitted || !configuration.isEnabled { return .notConfigured }
        if situation.isResponseStarted { return .responseStarted }
        if situation.isTunnel { return .tunnel }
        if !situation.isBodyBuffered { return .bodyNotBuffered }
        if case .status(_, hasRetryAfter: true) = situation.failure { return .retryAfter }
        if !isRepeatable(situation.method, after: reason, isCall: situation.isCall, configuration) { return .method }
        let isLast = situation.attempts >= configuration.attempts && !situation.isTargetWell
        if isLast || situation.sends >= maxSends { return .attempts }
        return situation.remaining < minRemaining ? .deadline : nil
    }
}
