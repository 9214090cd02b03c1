/// The kind of a problem, which clients can switch on: the `code` of a problem document.
///
/// The first five are the kinds of failure that existing clients of the API already know; the others are specific to
/// the gateway.
public enum ProblemCode: String, Sendable, Hashable, CaseIterable {
    /// The request needs a session, or the credentials were wrong (401).
    case unauthorized
    /// The upstream could not be reached or did not respond in time (502, 504).
    case unreachable
    /// The upstream closed the connection early, or the response is not valid HTTP (502).
    case failedRequest = "failed_request"
    /// The upstream's response to a sign-in is invalid (502).
    case invalidResponse = "invalid_response"
    /// An error without a more specific code (500).
    case unknown

    /// The upstream that signs users in rejected the gateway's own request: an operator has to correct the
    /// configuration (502).
    case identityMisconfigured = "identity_misconfigured"
    /// The login was not found in this browser, took too long or was used before (400).
    case loginExpired = "login_expired"
    /// The user or the provider denied the login (403).
    case loginRefused = "login_refused"
    /// The provider's response to a login is invalid (502).
    case loginFailed = "login_failed"
    /// The provider cannot be reached or is temporarily unavailable (503).
    case identityUnavailable = "identity_unavailable"
    /// The user does not have the claims that the route requires (403).
    case missingClaim = "missing_claim"
    /// The session belongs to an identity that the route is not for (403).
    case wrongIdentity = "wrong_identity"
    /// The access token is not valid (401).
    case invalidToken = "invalid_token"
    /// The client does not prove that it has the key of its access token (401).
    case invalidProof = "invalid_dpop_proof"
    /// The proof has to have the nonce of the response (401).
    case useNonce = "use_dpop_nonce"
    /// The access token does not have the scope that the route requires (403).
    case insufficientScope = "insufficient_scope"
    /// The route requires a stronger or more recent authentication (401).
    case stepUp = "step_up"
    /// The user did not authenticate as the route requires (403).
    case stepUpFailed = "step_up_failed"
    /// The route requires a session that is bound to a device (403), or the proof of one is rejected.
    case deviceRequired = "device_required"
    /// The request is malformed or ambiguous (400).
    case badRequest = "bad_request"
    /// A cross-site request, or the field that prevents such requests is missing (403).
    case crossSite = "cross_site"
    /// The listener only redirects to https, and the method cannot be redirected safely (403).
    case httpsRequired = "https_required"
    /// The host is not served here (421).
    case misdirected
    /// No route or endpoint has this path (404).
    case notFound = "not_found"
    /// The path exists, but not for this method (405).
    case methodNotAllowed = "method_not_allowed"
    /// The request did not arrive in time (408).
    case requestTimeout = "request_timeout"
    /// The body is larger than the route allows (413).
    case contentTooLarge = "content_too_large"
    /// The request target is longer than allowed (414).
    case targetTooLong = "target_too_long"
    /// The body of a sign-in is neither JSON nor a form (415).
    case unsupportedMediaType = "unsupported_media_type"
    /// An expectation other than `100-continue` (417).
    case expectationFailed = "expectation_failed"
    /// The e-mail address or the password is invalid (422).
    case invalidInput = "invalid_input"
    /// Too many sign-in attempts; try again later (429).
    case throttled
    /// The client or the session has too many requests in flight (429).
    case tooManyRequests = "too_many_requests"
    /// A rate limit is exceeded (429).
    case rateLimited = "rate_limited"
    /// Too many header fields, or too large (431).
    case headerFieldsTooLarge = "header_fields_too_large"
    /// A transfer coding or a method that is not supported (501).
    case notImplemented = "not_implemented"
    /// No capacity at the moment; try again (503).
    case overloaded
    /// The session store cannot be reached; sessions do not end because of this (503).
    case storeUnavailable = "store_unavailable"
    /// An HTTP version that is not supported (505).
    case versionNotSupported = "version_not_supported"

    /// The default status of the code.
    public var status: Int {
        switch self {
        case .badRequest, .loginExpired: 400
        case .unauthorized, .invalidToken, .invalidProof, .useNonce, .stepUp: 401
        case .crossSite, .loginRefused, .missingClaim, .wrongIdentity, .insufficientScope, .stepUpFailed,
            .deviceRequired, .httpsRequired:
            403
        case .notFound: 404
        case .methodNotAllowed: 405
        case .requestTimeout: 408
        case .contentTooLarge: 413
        case .targetTooLong: 414
        case .unsupportedMediaType: 415
        case .expectationFailed: 417
        case .misdirected: 421
        case .invalidInput: 422
        case .throttled, .tooManyRequests, .rateLimited: 429
        case .headerFieldsTooLarge: 431
        case .unknown: 500
        case .notImplemented: 501
        case .unreachable, .failedRequest, .invalidResponse, .identityMisconfigured, .loginFailed: 502
        case .overloaded, .storeUnavailable, .identityUnavailable: 503
        case .versionNotSupported: 505
        }
    }

    private static let ifRepeated = "If it still fails, report the request ID to the operator."
    private static let tryLater = "Try again later. \(ifRepeated)"
    private static let trySoon = "Try again in a moment. \(ifRepeated)"

    /// The default text, for routes without one of their own. A failure behind the gateway is not the user's: the text
    /// names what the user can do.
    public var defaultDetail: String {
        switch self {
        case .unauthorized: "You need to be signed in."
        case .unreachable: "The service could not be reached. \(Self.tryLater)"
        case .failedRequest: "The request failed. \(Self.tryLater)"
        case .invalidResponse: "The service returned an invalid response. \(Self.tryLater)"
        case .unknown: "Something went wrong."
        case .identityMisconfigured:
            "Signing in does not work until the operator corrects the configuration. Report the request ID to the operator."
        case .loginExpired: "This sign-in took too long or was used before. Try again."
        case .loginRefused: "You were not signed in."
        case .loginFailed: "Signing in failed. \(Self.tryLater)"
        case .identityUnavailable: "Signing in is not available at the moment. \(Self.trySoon)"
        case .missingClaim: "You do not have permission for this."
        case .wrongIdentity: "Sign in with another account for this."
        case .invalidToken: "The access token is not valid."
        case .invalidProof: "The proof of the key of the access token is not valid."
        case .useNonce: "Send a proof with the nonce of DPoP-Nonce."
        case .insufficientScope: "The access token does not permit this."
        case .stepUp: "You need to confirm that it is you."
        case .stepUpFailed: "You were not signed in as this requires."
        case .deviceRequired: "Sign in with a browser or an app that binds the session to this device."
        case .badRequest: "The request is malformed."
        case .crossSite: "Cross-site request blocked."
        case .httpsRequired: "Use https for this request."
        case .misdirected: "This host is not served here."
        case .notFound: "No resource at this path."
        case .methodNotAllowed: "This method is not allowed here."
        case .requestTimeout: "The request did not arrive in time."
        case .contentTooLarge: "The request is too large."
        case .targetTooLong: "The address is too long."
        case .unsupportedMediaType: "Send JSON or a form."
        case .expectationFailed: "The expectation cannot be met."
        case .invalidInput: "Enter a valid email address and a password."
        case .throttled: "Too many attempts. Try again later."
        case .tooManyRequests: "Too many requests at the same time. Try again in a moment."
        case .rateLimited: "Too many requests. Try again later."
        case .headerFieldsTooLarge: "The header fields are too large."
        case .notImplemented: "This is not supported."
        case .overloaded: "The service is busy. \(Self.trySoon)"
        case .storeUnavailable: "Sessions are not available at the moment. \(Self.trySoon)"
        case .versionNotSupported: "This HTTP version is not supported."
        }
    }
}

/// Why a request without a valid session got 401: the `reason` of its problem document.
public enum UnauthorizedReason: String, Sendable, Hashable, CaseIterable {
    /// There is no session cookie, it is malformed or duplicated, or its session is unknown.
    case noSession = "no_session"
    /// The session was not used for longer than its idle timeout.
    case expiredIdle = "expired_idle"
    /// The session reached its absolute timeout.
    case expiredAbsolute = "expired_absolute"
    /// The session was ended by its user or an operator.
    case revoked
    /// The upstream rejected the refresh of the session's tokens.
    case refreshRejected = "refresh_rejected"
    /// The session is bound to a device, and the request does not prove that it is of this device. Or it has to be bound,
    /// and was not in time.
    case unproven
    /// The e-mail address and password of a sign-in do not match.
    case invalidCredentials = "invalid_credentials"
}
