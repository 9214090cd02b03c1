/// What must hold, whatever happens.
public enum Invariant: String, Sendable, CaseIterable {
    /// No session ends, and nobody is told that theirs has, unless the upstream refused for good, somebody signed out, or
    /// a timeout passed.
    case endsWithCause
    /// No refresh token is spent twice by who holds the lease, while the one who spent it first has come to no harm.
    case spentOnce
    /// What the holder of the latest lease was given is in the store once its save came there, and stays.
    case resultPersisted = "resultKept"
    /// No token is used for, or kept in, another session than its own; and tokens that nobody needs are handed back.
    case tokensNeverCrossSessions = "tokensStayHome"
    /// No request is served with a session that has ended, once the replica has been told.
    case endedIsEnded
    /// When nothing goes wrong any more, all sessions that are alive are served, and nothing hangs.
    case progress
}

/// An invariant that did not hold.
public struct Violation: Sendable, Equatable, CustomStringConvertible {
    /// Which one.
    public let invariant: Invariant
    /// What was seen: names and numbers of the trace.
    public let text: String
    /// Milliseconds since the beginning.
    public let time: Int64

    /// The invariant, the time, and what was seen.
    public var description: String { "\(invariant.rawValue) does not hold at \(time) ms: \(text)" }
}
