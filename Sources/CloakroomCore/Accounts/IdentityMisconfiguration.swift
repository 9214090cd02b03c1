/// Why an identity upstream rejects the gateway's own request, regardless of its credential. An operator has to correct
/// the configuration of the gateway or of the upstream.
public enum IdentityMisconfiguration: String, Sendable, Hashable, CaseIterable {
    /// OAuth `invalid_client`: the client id or secret is wrong (RFC 6749 §5.2).
    case invalidClient = "invalid_client"
    /// OAuth `unauthorized_client`: the client may not use this grant.
    case unauthorizedClient = "unauthorized_client"
    /// OAuth `unsupported_grant_type`.
    case unsupportedGrantType = "unsupported_grant_type"
    /// OAuth `invalid_scope`.
    case invalidScope = "invalid_scope"
    /// OAuth `invalid_request`: a parameter is missing, unknown or malformed.
    case invalidRequest = "invalid_request"
    /// Status 404: the path of the call is probably wrong.
    case notFound = "not_found"
    /// Status 403: the API token is probably wrong.
    case forbidden
    /// Another 4xx status that is not among the call's `rejectedStatuses`.
    case requestRejected = "request_refused"

    /// Maps an OAuth error code; `nil` for codes with another meaning, and for unknown ones.
    public init?(oauthCode code: String) {
        switch Self(rawValue: code) {
        case .invalidClient, .unauthorizedClient, .unsupportedGrantType, .invalidScope, .invalidRequest:
            self.init(rawValue: code)
        case .notFound, .forbidden, .requestRejected, nil: return nil
        }
    }

    /// The first thing that an operator should check.
    public var hint: StaticString {
        switch self {
        case .invalidClient: "the client's name or secret is wrong"
        case .unauthorizedClient: "the upstream does not allow this grant for the client"
        case .unsupportedGrantType: "the upstream does not support this grant"
        case .invalidScope: "the upstream does not support the scope"
        case .invalidRequest: "the upstream expects another request format"
        case .notFound: "the path of the call is probably wrong"
        case .forbidden: "the API token is probably wrong"
        case .requestRejected: "check method, path and credentials of the call, and its rejectedStatuses"
        }
    }
}

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
