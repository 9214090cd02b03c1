import CloakroomCore
import CloakroomWire
import FoundationEssentials
import Logging

/// Compares the admin token of requests, and limits wrong ones. One value for all endpoints, so that wrong tokens count
/// together.
struct AdminTokenCheck: Sendable {
    private let token: Secret
    private let throttle = AdminTokenThrottle()
    private let rejections: RejectionLog
    private let now: @Sendable () -> SessionTime

    /// - Parameter token: An empty one rejects all requests.
    init(_ token: Secret, rejections: RejectionLog, now: @escaping @Sendable () -> SessionTime) {
        self.token = token
        self.rejections = rejections
        self.now = now
    }

    /// The check of a request that changes state: only `Authorization: Bearer`, which no browser sends by itself. A
    /// missing token counts as a wrong one.
    /// - Returns: The response that rejects the request; `nil` if the token is correct.
    func rejectionOfAction(_ request: AdminRequest, logger: Logger) -> AdminResponse? {
        rejection(of: request, Self.token(of: request, allowsBasic: false), challenge: "Bearer", logger: logger)
    }

    /// The check of a request that reads: `Authorization: Bearer`, or `Basic` with the token as the password, for which
    /// browsers ask the user. A request without credentials is no attempt, because browsers send one first.
    /// - Returns: The response that rejects the request; `nil` if the token is correct.
    func rejectionOfPage(_ request: AdminRequest, logger: Logger) -> AdminResponse? {
        let challenge = #"Basic realm="admin", charset="UTF-8""#
        guard !request.values(.authorization).isEmpty else { return Self.unauthorized(challenge) }
        return rejection(of: request, Self.token(of: request, allowsBasic: true), challenge: challenge, logger: logger)
    }

    private func rejection(
        of request: AdminRequest, _ given: [UInt8]?, challenge: String, logger: Logger
    ) -> AdminResponse? {
        // Constant time for tokens of the right length.
        let isRight = !token.isEmpty && given.map { Secret(bytes: $0) == token } ?? false
        switch throttle.attempt(from: request.peer, now: now(), isRight: isRight) {
        case .right: return nil
        case .throttled(let wait):
            rejections.note(.throttled, peer: request.peer, now: now(), logger: logger)
            let seconds = SignInThrottle.retryAfter(wait)
            return .problem(
                .throttled, "Too many wrong tokens. Try again in \(seconds) s.", ("Retry-After", "\(seconds)"))
        case .wrong:
            rejections.note(.wrongToken, peer: request.peer, now: now(), logger: logger)
            return Self.unauthorized(challenge)
        }
    }

    private static func unauthorized(_ challenge: String) -> AdminResponse {
        .problem(
            .unauthorized, "Send Authorization: Bearer with the admin token.", ("WWW-Authenticate", challenge))
    }

    /// The token of the only `Authorization` field: that of `Bearer`, or with `allowsBasic` the password of `Basic`, whose
    /// user is ignored (RFC 7617).
    private static func token(of request: AdminRequest, allowsBasic: Bool) -> [UInt8]? {
        let values = request.values(.authorization)
        guard values.count == 1 else { return nil }
        let words = values[0].utf8.split(separator: 0x20, maxSplits: 1)
        guard words.count == 2 else { return nil }
        let credentials = Array(words[1].drop { $0 == 0x20 })
        // A comparison of strings would cost the square of the length of some texts.
        let scheme = words[0].map { $0 | 0x20 }
        if scheme.elementsEqual("bearer".utf8) { return credentials }
        guard allowsBasic, scheme.elementsEqual("basic".utf8) else { return nil }
        let pair = Data(base64Encoded: String(decoding: credentials, as: UTF8.self)) ?? Data()
        return pair.firstIndex(of: UInt8(ascii: ":")).map { Array(pair[($0 + 1)...]) }
    }
}
