/// An identity call to an upstream: its method and path, the format and the names of its credentials, the members of its
/// response, and the responses that mean success, wrong credentials or an invalid refresh token.
public struct IdentityEndpointConfiguration: Sendable, Equatable {
    /// The credential format.
    public enum CredentialFormat: String, Sendable, Hashable, CaseIterable {
        /// `Authorization: Basic`, UTF-8 (RFC 7617).
        case basic
        /// `Authorization: Bearer` with the token that the call refers to (RFC 6750).
        case bearer
        /// A JSON object with ``IdentityEndpointConfiguration/members`` and
        /// ``IdentityEndpointConfiguration/fixedMembers``.
        case json
        /// A form (`application/x-www-form-urlencoded`, WHATWG URL §5.2) with the same members.
        case form
        /// A form with the parameters of OAuth 2.0: a token request (RFC 6749 §4.3.2, §6) or a revocation request (RFC
        /// 7009 §2.1), and the fixed members. Errors are judged by their code alone.
        case oauth

        /// Whether the call has a body.
        public var hasBody: Bool {
            switch self {
            case .basic, .bearer: false
            case .json, .form, .oauth: true
            }
        }

        /// The usual path of the access token in a response (RFC 6749 §5.1 for `oauth`).
        public var accessToken: String { self == .oauth ? "access_token" : "accessToken" }
        /// The usual path of the refresh token in a response.
        public var refreshToken: String { self == .oauth ? "refresh_token" : "refreshToken" }
        /// The usual path of the access token's lifetime in a response; `nil` if there is none.
        public var expiresIn: String? { self == .oauth ? "expires_in" : nil }
    }

    /// The names of the members that carry credentials in a JSON object or a form. Ignored for other formats.
    public struct MemberNames: Sendable, Equatable {
        /// The names of an upstream that documents no others.
        public static let defaults = Self()

        /// The user name of a sign-in, like the others 1 to 64 bytes.
        public var name = "email"
        /// The password of a sign-in.
        public var password = "password"
        /// The refresh token of a refresh or a revocation.
        public var refreshToken = "refreshToken"
    }

    /// The gateway as a client of an authorization server (RFC 6749 §2.3.1).
    public struct Client: Sendable, Equatable {
        /// How the client authenticates.
        public enum Authentication: String, Sendable, Hashable, CaseIterable {
            /// `Authorization: Basic` with identifier and secret, each form-encoded first.
            case basic = "client_secret_basic"
            /// The members `client_id` and `client_secret`.
            case post = "client_secret_post"
        }

        /// The client identifier: visible ASCII and spaces (RFC 6749 appendix A.1).
        public var id: String
        /// The client secret: visible ASCII and spaces (RFC 6749 appendix A.2).
        public var secret: Secret
        /// How the client authenticates.
        public var authentication: Authentication

        package init(id: String, secret: Secret, authentication: Authentication = .basic) {
            self.id = id
            self.secret = secret
            self.authentication = authentication
        }
    }

    /// A member of a 2xx response that must have a certain value.
    public struct SuccessMember: Sendable, Equatable {
        /// The path in the JSON response, as member names joined by dots.
        public var path: String
        /// The value: of a string its text, of a Boolean `true` or `false`, of a number its value.
        public var value: String

        package init(path: String, value: String = "true") {
            self.path = path
            self.value = value
        }
    }

    /// The word in ``endsOn`` for any 400 or 401 without a code of the gateway's own fault.
    public static let any400 = "any400"
    /// The codes that end a session if ``endsOn`` is `nil`: the refresh token is invalid (RFC 6749 §5.2).
    public static let usualEndingCodes: Set<String> = ["invalid_grant"]

    /// The method, upper case.
    public var method: String
    /// The path, which begins with a slash.
    public var path: String
    /// The credential format.
    public var credentials: CredentialFormat
    /// The names of the members that carry credentials.
    public var members = MemberNames.defaults
    /// Further members of the JSON object or the form, in this order. Names have 1 to 64 bytes. The values are no secrets:
    /// `print-config` prints them.
    public var fixedMembers: [NamedValue<String>] = []
    /// The gateway's own credentials, for a call with a body; `nil` sends none.
    public var client: Client?
    /// The path of the access token in the JSON response, as member names joined by dots.
    public var accessToken: String
    /// The path of the refresh token; a response without it means that the upstream supports no refresh.
    public var refreshToken: String
    /// The path of the access token's lifetime in seconds; `nil` uses `exp` if the token is a JWT.
    public var expiresIn: String?
    /// What a 2xx response must contain to mean success; `nil` if the status is sufficient.
    public var success: SuccessMember?
    /// The path of the error code in the JSON body of a response that means no success.
    public var errorCode: String
    /// The statuses, 400...499, that mean a rejected password or refresh token if the response has no OAuth error code;
    /// `nil` is 400, 401, 403, 422 for a sign-in and 401 for a refresh, and none of them for `oauth`.
    public var rejectedStatuses: Set<Int>?
    /// The error codes of a refresh that end a session, or ``any400``; `nil` is ``usualEndingCodes``. Ignored for other
    /// calls.
    public var endsOn: Set<String>?
    /// The path of the user's id in the response of a `user` call: a string or an integer. Ignored for other calls.
    public var userID = "id"
    /// The field of a token that the call sends without a body.
    public var bearer = BearerField()

    /// Creates an identity call with the usual paths of the credential format.
    package init(
        method: String = "POST", path: String, credentials: CredentialFormat, errorCode: String = "error",
        endsOn: Set<String>? = nil
    ) {
        self.method = method
        self.path = path
        self.credentials = credentials
        self.errorCode = errorCode
        self.endsOn = endsOn
        accessToken = credentials.accessToken
        refreshToken = credentials.refreshToken
        expiresIn = credentials.expiresIn
    }
}
