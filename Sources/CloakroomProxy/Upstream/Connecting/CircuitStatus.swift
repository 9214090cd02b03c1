import CloakroomCore
import Logging
import NIOPosix
import Synchronization

/// Whether a target is reachable, for operators only. ``UpstreamTargets`` updates it together with ``TargetBalancer``,
/// which selects targets. It reflects the last connection attempt, of a request or of an identity request.
final class CircuitStatus: Sendable {
    /// A failed connection attempt. The error is formatted only when it is queried.
    private struct Failure {
        let time: Timestamp
        let kind: UpstreamFailure.Kind
        let error: any Error
    }

    /// End of the back-off; 0 while the target is reachable.
    private let openUntil = Atomic<UInt64>(0)
    private let failure = Mutex<Failure?>(nil)

    /// A connection to the target was established.
    func succeeded() {
        openUntil.store(0, ordering: .relaxed)
    }

    /// A connection attempt failed.
    /// - Parameters:
    ///   - time: Wall-clock time of the failure.
    ///   - backOffEnd: End of the back-off, in nanoseconds of a monotonic clock.
    func failed(_ kind: UpstreamFailure.Kind, _ error: any Error, at time: Timestamp, backOffEnd: UInt64) {
        failure.withLock { $0 = Failure(time: time, kind: kind, error: error) }
        openUntil.store(max(backOffEnd, 1), ordering: .relaxed)
    }

    /// Whether connections to the target are attempted. A back-off ends by itself, so the result depends on the time.
    /// - Parameter now: Nanoseconds of the same clock.
    func state(now: UInt64) -> CircuitState {
        switch openUntil.load(ordering: .relaxed) {
        case 0: .closed
        case let end where now < end: .open
        default: .halfOpen
        }
    }

    /// The last failed connection attempt; `nil` if there was none.
    var lastFailure: UpstreamStatus.Failure? {
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
    private static func cause(of error: any Error) -> any Error {
        guard let error = error as? NIOConnectionError else { return error }
        return error.connectionErrors.last?.error ?? error.dnsAError ?? error.dnsAAAAError ?? error
    }
}

/// Logs why connections to a target fail, at most one line per 10 s.
final class ConnectFailureLog: Sendable {
    private static let maxReasonLength = 500

    private let logger: Logger
    private let lines = LogRateLimiter()

    /// - Parameter logger: Includes the names of upstream and target as metadata.
    init(_ logger: Logger) {
        self.logger = logger
    }

    /// Records a failed attempt.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    func failed(_ kind: UpstreamFailure.Kind, _ error: any Error, now: UInt64) {
        guard let suppressed = lines.allow(at: now) else { return }
        logger.warning(
            "upstream connection failed",
            metadata: [
                "error_type": "\(kind)", "reason": "\(String("\(error)".prefix(Self.maxReasonLength)))",
                "suppressed": "\(suppressed)",
            ])
    }
}
