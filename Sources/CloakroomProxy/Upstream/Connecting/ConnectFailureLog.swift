import CloakroomCore
import CloakroomTLS
import Logging
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Why connections to a target fail, for operators: the last failure for the status page, and at most one log line per
/// 10 s.
final class ConnectFailureLog: Sendable {
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
                "error_type": "\(kind)", "reason": "\(ConnectFailureReason.text(kind, error, at: time))",
                "suppressed": .stringConvertible(suppressed),
            ])
    }

    /// The last failed connection attempt; `nil` if there was none.
    var last: FailureStatus? {
        failure.withLock { $0 }.map {
            FailureStatus(time: $0.time, reason: ConnectFailureReason.text($0.kind, $0.error, at: $0.time))
        }
    }
}

/// Reason of a failed connection attempt, in plain words for operators. Constant texts: errors may contain text of the peer,
/// such as names from a certificate, and names of types.
enum ConnectFailureReason {
    /// - Parameter time: When the attempt failed.
    static func text(_ kind: UpstreamFailure.Kind, _ error: any Error, at time: WallTime) -> String {
        // Also if the search for the name failed so.
        if kind == .noResources { return text(kind) }
        if let error = error as? NIOConnectionError, error.connectionErrors.isEmpty {
            return "the host name was not found"
        }
        return switch cause(of: error) {
        case let error as IOError: String(cString: strerror(error.errnoCode)).lowercased()
        case let error as TLSHandshakeError: text(error, at: time)
        case ChannelError.connectTimeout: text(.connectTimeout)
        default: text(kind)
        }
    }

    private static func text(_ error: TLSHandshakeError, at time: WallTime) -> String {
        switch error.cause {
        case is ServerNameVerifier.Mismatch: return "the certificate is not issued for this host"
        case let error as NIOSSLExtraError where error == .failedToValidateHostname:
            return "the certificate is not issued for this host"
        case let error as HTTP2NotNegotiated: return "\(error)"
        default: break
        }
        guard let expiry = error.expiry else {
            return "the TLS handshake failed: the target may not use TLS on this port"
        }
        return expiry < time
            ? "the certificate has expired"
            : "no trusted authority issued the certificate, or the target requires one of a client"
    }

    private static func text(_ kind: UpstreamFailure.Kind) -> String {
        switch kind {
        case .unreachable: "no connection could be established"
        case .noResources: "the gateway has no file descriptor, memory or local port left"
        case .connectTimeout: "the connection attempt timed out"
        case .tls: "the TLS handshake failed"
        default: HealthCheck.closed
        }
    }

    /// NIO lists the errors of all addresses tried; the last one is reported.
    static func cause(of error: any Error) -> any Error {
        guard let error = error as? NIOConnectionError else { return error }
        return error.connectionErrors.last?.error ?? error.dnsAError ?? error.dnsAAAAError ?? error
    }
}
