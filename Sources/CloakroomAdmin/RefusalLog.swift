import CloakroomCore
import CloakroomTelemetry
import Logging

/// The audit event `admin_refused`: a request that was to change something was refused. At most one line per 10 s and
/// reason, with the number of those that were left out.
struct RejectionLog: Sendable {
    /// Why it was refused.
    enum Reason: String, CaseIterable {
        case wrongToken = "wrong_token"
        case throttled
        case page

        fileprivate var message: Logger.Message {
            switch self {
            case .wrongToken: "revocation refused: no token, or a wrong one"
            case .throttled: "revocation refused: too many wrong tokens"
            case .page: "revocation refused: a browser's page asked"
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
