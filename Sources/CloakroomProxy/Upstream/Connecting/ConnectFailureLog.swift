import CloakroomCore
import Logging
import NIOPosix
import Synchronization

/// Why connections to a target fail, for operators: the last failure for the status page, and at most one log line per
/// 10 s.
final class ConnectFailureLog: Sendable {
    private static let maxReasonLength = 500

    /// A failed connection attempt. The error is formatted only when it is queried.
    private struct Failure {
        let time: WallTime
        let kind: UpstreamFailure.Kind
        let error: any Error
    }

    private let failure = Mutex<Failure?>(nil)
    private let logger: Logger
    private let lines = LogRateLimiter()

    /// - Parameter logger: Includes the names of upstream and target as metadata.
    init(_ logger: Logger) {
        self.logger = logger
    }

    /// Records a failed attempt.
    /// - Parameters:
    ///   - now: Nanoseconds of a monotonic clock.
    ///   - time: The same time by the wall clock.
    func failed(_ kind: UpstreamFailure.Kind, _ error: any Error, now: UInt64, time: WallTime) {
        failure.withLock { $0 = Failure(time: time, kind: kind, error: error) }
        guard let suppressed = lines.allow(at: now) else { return }
        logger.warning(
            "upstream connection failed",
            metadata: [
                "error_type": "\(kind)", "reason": "\(String("\(error)".prefix(Self.maxReasonLength)))",
                "suppressed": .stringConvertible(suppressed),
            ])
    }

    /// The last failed connection attempt; `nil` if there was none.
    var last: UpstreamStatus.Failure? {
        failure.withLock { $0 }.map {
            UpstreamStatus.Failure(time: $0.time, reason: ConnectFailureReason.text($0.kind, $0.error))
        }
    }
}

/// Reason of a failed connection attempt, as text for operators.
enum ConnectFailureReason {
    /// Maximum length in Unicode scalars.
    static let limit = 200

    /// The kind of failure and the message of the system or of TLS. The message may contain untrusted text, such as
    /// names from a certificate, so control characters are replaced with spaces.
    static func text(_ kind: UpstreamFailure.Kind, _ error: any Error) -> String {
        var text = String.UnicodeScalarView()
        // Scalars, not characters: the length of a character is unbounded.
        for scalar in "\(kind): \(cause(of: error))".unicodeScalars.prefix(limit) {
            text.append(scalar.properties.generalCategory == .control ? " " : scalar)
        }
        return String(text)
    }

    /// NIO lists the errors of all addresses tried; the last one is reported.
    static func cause(of error: any Error) -> any Error {
        guard let error = error as? NIOConnectionError else { return error }
        return error.connectionErrors.last?.error ?? error.dnsAError ?? error.dnsAAAAError ?? error
    }
}
