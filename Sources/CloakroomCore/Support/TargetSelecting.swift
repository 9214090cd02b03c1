/// Selects the targets of identity calls, which share their health with the requests to the same upstream.
///
/// Targets are indices into ``UpstreamConfiguration/targets``. Times are nanoseconds of a monotonic clock.
public protocol TargetSelecting: Sendable {
    /// All targets that may be called, the preferred one first: usable ones by tier and cost, then the others by the end
    /// of their back-off or ejection.
    func order(now: UInt64) -> [Int]

    /// A connection to a target was established: its back-off ends.
    func connected(_ target: Int, now: UInt64)

    /// A call begins.
    /// - Returns: What ``ended(_:_:_:startedAt:now:)`` is to be called with: the configuration may change meanwhile.
    func started(_ target: Int, now: UInt64) -> TargetState?

    /// A call ended; called for each one that began.
    /// - Parameters:
    ///   - state: The result of ``started(_:now:)``.
    ///   - startedAt: When it began.
    func ended(_ target: Int, _ state: TargetState?, _ outcome: TargetOutcome, startedAt: UInt64, now: UInt64)

    /// Records for operators why no connection was established. The outcome of the call is reported separately.
    /// - Parameter error: The cause. It must not contain a secret.
    func record(_ target: Int, _ failure: ConnectFailure, _ error: any Error, now: UInt64)
}

/// Why a connection attempt failed.
public enum ConnectFailure: Sendable, Hashable {
    /// The connection was refused, or the host name has no address.
    case unreachable
    /// The connection was not established before the timeout.
    case timedOut
    /// The TLS handshake failed, or the certificate could not be verified.
    case tls
}

/// The outcome of a call for the health of its target.
public enum TargetOutcome: Sendable, Equatable {
    /// A response that is not a failure of the target.
    case succeeded
    /// No connection was established.
    case connectFailed
    /// The call failed after the connection was established, or its response counts as a failure.
    case failed
    /// The caller cancelled the call.
    case cancelled
}
