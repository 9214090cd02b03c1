import CloakroomCore
import FoundationEssentials
import HTTPTypes
import Hummingbird
import Logging

/// Compares the admin token of requests, and limits wrong ones. One value for all endpoints, so that wrong tokens count
/// together.
struct AdminTokenCheck: Sendable {
    private let token: Secret
    private let throttle = AdminTokenThrottle()
    private let rejections: RejectionLog
    private let now: @Sendable () -> Timestamp

    /// - Parameter token: An empty one rejects all requests.
    init(_ token: Secret, rejections: RejectionLog, now: @escaping @Sendable () -> Timestamp) {
        self.token = token
        self.rejections = rejections
        self.now = now
    }

    /// The check of a request that changes state: only `Authorization: Bearer`, which no browser sends by itself. A
    /// missing token counts as a wrong one.
    /// - Returns: The response that rejects the request; `nil` if the token is correct.
    func rejectionOfAction(_ headers: HTTPFields, peer: String, logger: Logger) -> Response? {
        let values = headers[values: .authorization]
        return rejection(peer: peer, logger: logger, challenge: "Bearer", isRight: isBearer(values))
    }

    /// The check of a request that reads: `Authorization: Bearer`, or `Basic` with the token as the password, for which
    /// browsers ask the user. A request without credentials is no attempt, because browsers send one first.
    /// - Returns: The response that rejects the request; `nil` if the token is correct.
    func rejectionOfPage(_ headers: HTTPFields, peer: String, logger: Logger) -> Response? {
        let challenge = #"Basic realm="admin", charset="UTF-8""#
        let values = headers[values: .authorization]
        guard !values.isEmpty else { return Self.unauthorized(challenge) }
        return rejection(
            peer: peer, logger: logger, challenge: challenge, isRight: isBearer(values) || isBasic(values))
    }

    private func rejection(
        peer: String, logger: Logger, challenge: String, isRight: Bool
    ) -> Response? {
        switch throttle.attempt(from: peer, now: now(), isRight: isRight) {
        case .right: return nil
        case .throttled(let wait):
            rejections.note(.throttled, peer: peer, now: now(), logger: logger)
            let seconds = SignInThrottle.retryAfter(wait)
            var response = AdminResponse.problem(.throttled, "Too many wrong tokens. Try again in \(seconds) s.")
            response.headers[.retryAfter] = "\(seconds)"
            return response
        case .wrong:
            rejections.note(.wrongToken, peer: peer, now: now(), logger: logger)
            return Self.unauthorized(challenge)
        }
    }

    private static func unauthorized(_ challenge: String) -> Response {
        var response = AdminResponse.problem(.unauthorized, "Send Authorization: Bearer with the admin token.")
        response.headers[.wwwAuthenticate] = challenge
        return response
    }

    private func isBearer(_ values: [String]) -> Bool {
        credentials(values, scheme: "bearer").map(isToken) ?? false
    }

    /// RFC 7617: user and password in Base64; the user is ignored.
    private func isBasic(_ values: [String]) -> Bool {
        guard let encoded = credentials(values, scheme: "basic"),
            let pair = Data(base64Encoded: String(decoding: encoded, as: UTF8.self)),
            let colon = pair.firstIndex(of: UInt8(ascii: ":"))
        else { return false }
        return isToken(Array(pair[(colon + 1)...]))
    }

    private func credentials(_ values: [String], scheme: String) -> [UInt8]? {
        guard values.count == 1, let value = values.first else { return nil }
        let words = value.utf8.split(separator: 0x20, maxSplits: 1)
        guard words.count == 2, String(decoding: words[0], as: UTF8.self).lowercased() == scheme else { return nil }
        return Array(words[1].drop { $0 == 0x20 })
    }

    /// Constant time for tokens of the right length.
    private func isToken(_ bytes: [UInt8]) -> Bool { !token.isEmpty && Secret(bytes: bytes) == token }
}
