/// What went wrong, as a word that a client can switch on: the `code` of a problem document.
///
/// The first five are the kinds of failure that clients of the API already know; the others are the gateway's own.
public enum ProblemCode: String, Sendable, Hashable, CaseIterable {
    /// The request needs a session, or the credentials were wrong (401).
    case unauthorized
    /// The upstream could not be reached or did not answer in time (502, 504).
    case unreachable
    /// The upstream broke off, or answered with something that is not HTTP (502).
    case failedRequest = "failed_request"
    /// The upstream's answer to a sign-in made no sense (502).
    case invalidResponse = "invalid_response"
    /// Anything that has no better word (500).
    case unknown

    /// The upstream that signs people in refused the gateway's own request: an operator has to correct the
    /// configuration (502).
    case identityMisconfigured = "identity_misconfigured"
    /// The request is malformed or ambiguous (400).
    case badRequest = "bad_request"
    /// Another site made the browser send this, or a field is missing that keeps such requests out (403).
    case crossSite = "cross_site"
    /// Nothing is served under this path (404).
    case notFound = "not_found"
    /// The path is served, but not with this method (405).
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
    /// The e-mail address or the password cannot be right as it stands (422).
    case invalidInput = "invalid_input"
    /// Too many attempts to sign in; try again later (429).
    case throttled
    /// Too many header fields, or too large (431).
    case headerFieldsTooLarge = "header_fields_too_large"
    /// A transfer coding or a method that is not supported (501).
    case notImplemented = "not_implemented"
    /// No capacity at the moment; try again (503).
    case overloaded
    /// The session store cannot be reached; nobody is signed out by that (503).
    case storeUnavailable = "store_unavailable"
    /// An HTTP version that is not supported (505).
    case versionNotSupported = "version_not_supported"

    /// The status that goes with the code unless the place where it arises knows better.
    public var status: Int {
        switch self {
        case .badRequest: 400
        case .unauthorized: 401
        case .crossSite: 403
        case .notFound: 404
        case .methodNotAllowed: 405
        case .requestTimeout: 408
        case .contentTooLarge: 413
        case .targetTooLong: 414
        case .unsupportedMediaType: 415
        case .expectationFailed: 417
        case .invalidInput: 422
        case .throttled: 429
        case .headerFieldsTooLarge: 431
        case .unknown: 500
        case .notImplemented: 501
        case .unreachable, .failedRequest, .invalidResponse, .identityMisconfigured: 502
        case .overloaded, .storeUnavailable: 503
        case .versionNotSupported: 505
        }
    }

    /// The sentence shown where a route has none of its own.
    public var defaultDetail: String {
        switch self {
        case .unauthorized: "You need to be signed in."
        case .unreachable: "The service could not be reached. Check your network connection and try again."
        case .failedRequest: "The request failed. Try again."
        case .invalidResponse: "The service gave an answer that could not be understood."
        case .unknown: "Something went wrong."
        case .identityMisconfigured:
            "Signing in does not work at the moment. The operator has to correct the configuration."
        case .badRequest: "The request is malformed."
        case .crossSite: "This request came from another site and was not carried out."
        case .notFound: "There is nothing here."
        case .methodNotAllowed: "This method is not allowed here."
        case .requestTimeout: "The request did not arrive in time."
        case .contentTooLarge: "The request is too large."
        case .targetTooLong: "The address is too long."
        case .unsupportedMediaType: "Send JSON or a form."
        case .expectationFailed: "The expectation cannot be met."
        case .invalidInput: "Enter a valid email address and a password."
        case .throttled: "Too many attempts. Try again later."
        case .headerFieldsTooLarge: "The header fields are too large."
        case .notImplemented: "This is not supported."
        case .overloaded: "The service is busy. Try again in a moment."
        case .storeUnavailable: "Sessions are not available at the moment. Try again in a moment."
        case .versionNotSupported: "This HTTP version is not supported."
        }
    }
}

/// Why a request without a usable session was answered with 401: the `reason` of its problem document.
public enum UnauthorizedReason: String, Sendable, Hashable, CaseIterable {
    /// No session cookie, a malformed or doubled one, or one that nothing is known of.
    case noSession = "no_session"
    /// The session was not used for longer than its idle timeout.
    case expiredIdle = "expired_idle"
    /// The session reached its absolute timeout.
    case expiredAbsolute = "expired_absolute"
    /// The session was ended by its user or an operator.
    case revoked
    /// The upstream refused to renew the session's tokens.
    case refreshRejected = "refresh_rejected"
    /// The e-mail address and password of a sign-in do not go together.
    case invalidCredentials = "invalid_credentials"
}
