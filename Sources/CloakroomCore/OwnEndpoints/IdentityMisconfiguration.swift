/// Why an identity upstream refuses the gateway's own request, whatever the credential in it: an operator has to change
/// the configuration of one of the two.
public enum IdentityMisconfiguration: String, Sendable, Hashable, CaseIterable {
    /// OAuth `invalid_client`: the client's name or secret is wrong (RFC 6749 §5.2).
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
    /// Another status of the 4xx class that the call's `rejectedStatuses` does not list.
    case requestRejected = "request_refused"

    /// The reason for an OAuth error code; `nil` for codes that are about something else, and for unknown ones.
    public init?(oauthCode code: String) {
        switch Self(rawValue: code) {
        case .invalidClient, .unauthorizedClient, .unsupportedGrantType, .invalidScope, .invalidRequest:
            self.init(rawValue: code)
        case .notFound, .forbidden, .requestRejected, nil: return nil
        }
    }

    /// What an operator should check first.
    public var hint: StaticString {
        switch self {
        case .invalidClient: "the client's name or secret is wrong"
        case .unauthorizedClient: "the upstream does not allow the client this grant"
        case .unsupportedGrantType: "the upstream does not support this grant"
        case .invalidScope: "the upstream does not know the scope"
        case .invalidRequest: "the upstream expects another form of request"
        case .notFound: "the path of the call is probably wrong"
        case .forbidden: "the API token is probably wrong"
        case .requestRejected: "check method, path and credentials of the call, and its rejectedStatuses"
        }
    }
}
