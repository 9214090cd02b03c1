import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Why a call came to nothing.
public struct ClientError: Error, Equatable, Sendable {
    /// The kind of failure: the `code` of the gateway's problem document (RFC 9457), or one of the client's own.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The word itself. A gateway may know more of them than stand here.
        public let rawValue: String

        /// The code with that name.
        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        /// Nobody is signed in, not any more, or not with these credentials; ``ClientError/reason`` says which.
        public static let unauthorized = Code(rawValue: "unauthorized")
        /// No e-mail address, or no password.
        public static let invalidInput = Code(rawValue: "invalid_input")
        /// Too many attempts to sign in; see ``ClientError/retryAfter``.
        public static let throttled = Code(rawValue: "throttled")
        /// The gateway is there, the API behind it is not.
        public static let unreachable = Code(rawValue: "unreachable")
        /// The API failed.
        public static let failedRequest = Code(rawValue: "failed_request")
        /// The answer made no sense.
        public static let invalidResponse = Code(rawValue: "invalid_response")
        /// There was no answer: no network, no gateway, or a certificate that is not trusted.
        public static let network = Code(rawValue: "network")
        /// The caller lost interest.
        public static let cancelled = Code(rawValue: "cancelled")
    }

    /// The kind of failure.
    public let code: Code
    /// The gateway's sentence for the person in front of the screen, if it has one.
    public var detail: String?
    /// Why nobody is signed in, as the gateway puts it: `no_session`, `expired_idle`, `revoked`…
    public var reason: String?
    /// When to try again at the earliest.
    public var retryAfter: Duration?

    init(code: Code) {
        self.code = code
    }

    /// Reads the problem document of an answer; an answer of the API's own is a failed request.
    init(_ response: HTTPURLResponse, body: Data) {
        let isProblem = response.value(forHTTPHeaderField: "Content-Type")?.hasPrefix("application/problem+json")
        let problem = isProblem == true ? try? JSONDecoder().decode(Problem.self, from: body) : nil
        code = problem.map { Code(rawValue: $0.code) } ?? .failedRequest
        detail = problem?.detail
        reason = problem?.reason
        retryAfter = response.value(forHTTPHeaderField: "Retry-After").flatMap { Int($0) }.map { .seconds($0) }
    }

    /// What to show.
    public var userMessage: String {
        if let detail { return detail }
        return code == .network ? "You need a network connection." : "Something went wrong. Try again."
    }

    private struct Problem: Decodable {
        let code: String
        let detail: String
        let reason: String?
    }
}
