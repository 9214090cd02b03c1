import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The error of a failed call.
public struct ClientError: Error, Equatable, Sendable {
    /// The kind of failure: the `code` of the gateway's problem document (RFC 9457), or one of the client itself.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The raw code. A gateway may send other codes.
        public let rawValue: String

        /// Creates a code.
        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        /// There is no valid session, or the credentials are wrong; see ``ClientError/reason``.
        public static let unauthorized = Code(rawValue: "unauthorized")
        /// The user has to authenticate again, in a browser; see ``ClientError/login``.
        public static let stepUp = Code(rawValue: "step_up")
        /// The user does not have what the path requires.
        public static let missingClaim = Code(rawValue: "missing_claim")
        /// The path is for users who signed in elsewhere.
        public static let wrongIdentity = Code(rawValue: "wrong_identity")
        /// The sign-in in a browser took too long, was used before, or was begun by another client.
        public static let loginExpired = Code(rawValue: "login_expired")
        /// The user or the identity provider denied the sign-in.
        public static let loginRefused = Code(rawValue: "login_refused")
        /// The user name or the password is missing.
        public static let invalidInput = Code(rawValue: "invalid_input")
        /// Too many sign-in attempts; see ``ClientError/retryAfter``.
        public static let throttled = Code(rawValue: "throttled")
        /// Too many requests at the same time; see ``ClientError/retryAfter``.
        public static let tooManyRequests = Code(rawValue: "too_many_requests")
        /// More requests than a limit permits; see ``ClientError/retryAfter``.
        public static let rateLimited = Code(rawValue: "rate_limited")
        /// The gateway has no capacity; see ``ClientError/retryAfter``.
        public static let overloaded = Code(rawValue: "overloaded")
        /// The gateway cannot read sessions. The session continues; see ``ClientError/retryAfter``.
        public static let storeUnavailable = Code(rawValue: "store_unavailable")
        /// The gateway cannot reach the API.
        public static let unreachable = Code(rawValue: "unreachable")
        /// The API failed, or the gateway rejected the request.
        public static let failedRequest = Code(rawValue: "failed_request")
        /// The response is invalid.
        public static let invalidResponse = Code(rawValue: "invalid_response")
        /// There is no response: no network, no gateway, or an untrusted certificate.
        public static let network = Code(rawValue: "network")
        /// The caller cancelled the request.
        public static let cancelled = Code(rawValue: "cancelled")
    }

    /// The kind of failure.
    public let code: Code
    /// The status of the response; `nil` if there is none.
    public var status: Int?
    /// The user-visible message of the gateway, if any.
    public var detail: String?
    /// Why there is no session: `no_session`, `expired_idle`, `revoked`…
    public var reason: String?
    /// The path and query of the gateway to open in a browser, for ``Code/stepUp``.
    public var login: String?
    /// The minimum delay before a retry.
    public var retryAfter: Duration?
    /// Finds the request in the log of the gateway.
    public var requestID: String?

    /// Creates an error without a response, for a ``Transport`` in tests.
    public init(code: Code) {
        self.code = code
    }

    /// Parses the problem document of a response; an error response of the API itself is a failed request.
    init(_ response: HTTPURLResponse, body: Data) {
        let isProblem = response.value(forHTTPHeaderField: "Content-Type")?.hasPrefix("application/problem+json")
        let problem = isProblem == true ? try? JSONDecoder().decode(Problem.self, from: body) : nil
        code = problem.map { Code(rawValue: $0.code) } ?? .failedRequest
        status = response.statusCode
        detail = problem?.detail
        reason = problem?.reason
        login = problem?.login
        requestID = problem?.request_id
        retryAfter = response.value(forHTTPHeaderField: "Retry-After").flatMap { Int($0) }.map { .seconds($0) }
    }

    /// Whether the user has no session, so that the app shows its sign-in. `false` for wrong credentials and for errors
    /// during which the session continues.
    public var requiresSignIn: Bool { code == .unauthorized && reason != "invalid_credentials" }

    /// The message to show to the user.
    public var userMessage: String {
        if let detail { return detail }
        return code == .network ? "You need a network connection." : "Something went wrong. Try again."
    }

    private struct Problem: Decodable {
        let code: String
        let detail: String
        let reason: String?
        let login: String?
        // swift-format-ignore: AlwaysUseLowerCamelCase
        let request_id: String?
    }
}
