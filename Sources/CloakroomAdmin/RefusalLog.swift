import CloakroomCore
import CloakroomTelemetry
import Logging

/// Logs the audit event `admin_refused`: a rejected state-changing request. At most one line per 10 s and reason, with
/// the number of suppressed lines.
struct RejectionLog: Sendable {
    /// The reason of the rejection.
    enum Reason: String, CaseIterable {
        case wrongToken = "wrong_token"
        case throttled
        case page

        fileprivate var message: Logger.Message {
            switch self {
            case .wrongToken: "revocation rejected: missing or wrong token"
            case .throttled: "revocation rejected: too many wrong tokens"
            case .page: "revocation rejected: browser request"
            }
        }
    }

    private let wrongToken = LogRateLimiter(interval: .seconds(10))
    private let throttled = LogRateLimiter(interval: .seconds(10))
    private let page = LogRateLimiter(interval: .seconds(10))

    func note(_ reason: Reason, peer: String, now: Timestamp, logger: Logger) {
        let lines =
            switch reason {
            case .wrongToken: wrongToken
            case .throttled: throttled
            case .page: page
            }
        guard let unlogged = lines.allow(at: now) else { return }
        logger.warning(
            reason.message,
            metadata: [
                "event": "admin_refused", "outcome": "\(reason.rawValue)", "peer": "\(peer)",
                "unlogged": "\(unlogged)",
            ])
    }
}
