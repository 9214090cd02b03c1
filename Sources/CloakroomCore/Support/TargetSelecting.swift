/// Selects the target of an upstream for a new connection, for requests and identity calls alike.
///
/// An outcome that either of them reports applies to both: a target whose connection attempt failed is skipped until
/// its back-off ends. Times are nanoseconds of a monotonic clock. Called only when a connection is opened.
public protocol TargetSelecting: Sendable {
    /// Selects a target.
    /// - Parameters:
    ///   - isFollowUp: Whether the call directly follows another call that it belongs to. It gets the target of that
    ///     call and does not advance the round robin. Otherwise pairs of calls would send all first calls to the same
    ///     target.
    ///   - tried: The targets that already failed for this call.
    /// - Returns: An index into ``UpstreamConfiguration/targets``. If all targets are in back-off, the one whose back-off ends
    ///   first; `nil` after all were tried.
    func chooseTarget(isFollowUp: Bool, tried: [Int], now: UInt64) -> Int?

    /// Ends the back-off of a target after a connection to it was established.
    func targetReached(_ index: Int)

    /// Starts or extends the back-off of a target after a connection attempt failed.
    /// - Parameters:
    ///   - error: The cause, for operators. It must not contain a secret.
    ///   - startedAt: When the attempt began. An attempt that began before the back-off does not extend it.
    func targetFailed(_ index: Int, _ failure: ConnectFailure, _ error: any Error, startedAt: UInt64, now: UInt64)
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
