/// The condition of a target, for operators. The raw value is the value of the metric label `state`.
public enum TargetCondition: String, Sendable, CaseIterable {
    /// It gets its full share of requests.
    case up
    /// It gets a growing share.
    case warming
    /// Its requests failed.
    case ejected
    /// A connection attempt failed.
    case backingOff = "backing_off"
    /// Its checks failed.
    case down
    /// It gets no new requests.
    case draining
}

/// Why a target was ejected. The raw value is the value of the metric label `reason`.
public enum EjectionReason: String, Sendable, CaseIterable {
    /// Consecutive failures.
    case consecutive
    /// The fraction of failures.
    case share
    /// The probe after an ejection failed.
    case probe
}

/// A change of an upstream, for logs and metrics.
public enum UpstreamChange: Sendable, Equatable {
    case condition(TargetIdentity, from: TargetCondition, to: TargetCondition)
    /// A target was ejected; `milliseconds` is how long.
    case ejected(TargetIdentity, EjectionReason, milliseconds: Int)
    /// A target that was removed has no request in flight any more; its metrics can be withdrawn.
    case removed(TargetIdentity)
    /// Unusable targets are used, because none is usable.
    case panicStarted
    /// A target is usable again.
    case panicEnded
    /// The retry budget is spent.
    case budgetSpent
    /// The retry budget has tokens again.
    case budgetAvailable
}
