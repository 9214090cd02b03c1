import CloakroomCore
import CloakroomTelemetry
import Logging

/// Logs the audit event `admin_refused`: a request or a connection that the admin listener rejected. At most one line
/// per 10 s and reason, with the number of suppressed lines.
struct RejectionLog: Sendable {
    enum Reason: String, CaseIterable {
        case wrongToken = "wrong_token"
        case throttled
        case page
        case host
        case certificate
        case connections

        fileprivate var message: Logger.Message {
            switch self {
            case .wrongToken: "admin request rejected: missing or wrong token"
            case .throttled: "admin request rejected: too many wrong tokens"
            case .page: "admin request rejected: browser request"
            case .host: "admin request rejected: host name not in admin.allowedHosts, or several"
            case .certificate: "admin request rejected: no client certificate"
            case .connections: "admin connection closed for a new one: too many connections"
            }
        }
    }

    private let limiters = Dictionary(uniqueKeysWithValues: Reason.allCases.map { ($0, LogRateLimiter()) })

    func note(_ reason: Reason, peer: String, now: Timestamp<some Any>, logger: Logger) {
        guard let suppressed = limiters[reason]?.allow(at: now) else { return }
        logger.warning(
            reason.message,
            metadata: [
                "event": "admin_refused", "outcome": "\(reason.rawValue)", "peer": "\(peer)",
                "suppressed": .stringConvertible(suppressed),
            ])
    }
}
