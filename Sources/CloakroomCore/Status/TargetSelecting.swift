/// Chooses the target of an upstream that a connection goes to, for requests and identity calls together.
///
/// An outcome that either of them reports applies to both: a target that could not be reached is skipped until its
/// back-off ends. Moments are nanoseconds of a monotonic clock. Called only when a connection is made.
public protocol TargetSelecting: Sendable {
    /// Chooses a target.
    /// - Parameters:
    ///   - isFollowUp: Whether the call belongs to one that was sent just before. It gets the target whose turn was last,
    ///     and takes no turn itself. Otherwise pairs of calls would send all first calls to the same target.
    ///   - tried: The targets that failed for this call already.
    /// - Returns: An index into ``UpstreamConfiguration/targets``. If all targets are in back-off, the one whose back-off ends
    ///   first; `nil` after all were tried.
    func chooseTarget(isFollowUp: Bool, tried: [Int], now: UInt64) -> Int?

    /// Ends the back-off of a target: a connection to it is established.
    func targetReached(_ index: Int)

    /// Starts or extends the back-off of a target: no connection to it could be established.
    /// - Parameters:
    ///   - error: The cause, for operators. It must not contain a secret.
    ///   - begunAt: When the attempt began. An attempt that began before the back-off does not extend it.
    func targetFailed(_ index: Int, _ failure: ConnectFailure, _ error: any Error, startedAt: UInt64, now: UInt64)
}

/// Why no connection could be established.
public enum ConnectFailure: Sendable, Hashable {
    /// The connection was refused, or no address could be found.
    case unreachable
    /// The connection was not established in time.
    case timedOut
    /// The TLS handshake failed, or the certificate could not be verified.
    case tls
}
