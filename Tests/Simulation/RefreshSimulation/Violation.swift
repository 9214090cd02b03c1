/// The invariants of a run.
public enum Invariant: String, Sendable, CaseIterable {
    /// No session ends, and no client gets a 401, unless the upstream rejected the refresh token, a user signed out, or
    /// a timeout passed.
    case endsWithCause
    /// No holder of the lease spends a refresh token that another call has spent, unless that call was disturbed by a
    /// fault.
    case spentOnce
    /// Tokens received under the latest lease are in the store once their save arrived, and are not lost.
    case resultPersisted = "resultKept"
    /// No token is used for, or stored in, another session than its own; and unused tokens are returned to be revoked.
    case tokensNeverCrossSessions = "tokensStayHome"
    /// No request is served with an ended session once the replica has received the notice.
    case endedIsEnded
    /// After faults have stopped, all active sessions are served, and no request or refresh hangs.
    case progress
}

/// A violated invariant.
public struct Violation: Sendable, Equatable, CustomStringConvertible {
    /// The invariant.
    public let invariant: Invariant
    /// The evidence, with the names and numbers of the trace.
    public let text: String
    /// Milliseconds since the start.
    public let time: Int64

    /// The invariant, the time and the evidence.
    public var description: String { "\(invariant.rawValue) is violated at \(time) ms: \(text)" }
}
