import CloakroomCore
import CloakroomTelemetry
import NIOCore
import NIOPosix

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Reason that an upstream returned no complete response.
struct UpstreamFailure: Error, Equatable {
    enum Kind: Equatable {
        /// No connection could be established.
        case unreachable
        /// The gateway has no descriptor, memory or local port for a connection.
        case noResources
        /// No connection could be established in time.
        case connectTimeout
        /// The TLS handshake failed: the server's certificate was not accepted, or the server rejected the handshake.
        case tls
        /// No response head was received in time.
        case responseTimeout
        /// The connection was closed before the first byte of the response.
        case closedBeforeResponse
        /// The connection was closed before the response was complete.
        case closedDuringResponse
        /// The response is not valid HTTP, or is ambiguous.
        case invalidResponse
        /// The upstream rejected the stream before it processed the request: `REFUSED_STREAM` (RFC 9113 §8.7).
        case refused
        /// The upstream has not received the request, or not processed it because it ends the connection: a stream
        /// beyond the last one of GOAWAY, or one that was never begun (RFC 9113 §6.8).
        case unprocessed
        /// The upstream reset the stream before a response, without an error.
        case cancelled
        /// The head is too large for an HTTP/2 connection to the upstream.
        case requestHeadTooLarge
        /// The request cannot be expressed in HTTP/2.
        case invalidRequest
        /// No connection became available in time, or the queue was full.
        case poolExhausted
    }

    let kind: Kind

    init(_ kind: Kind) {
        self.kind = kind
    }

    /// Classifies an error of a connection attempt.
    init(connecting error: any Error, to target: TargetRuntime) {
        kind =
            switch error {
            case ChannelError.connectTimeout: .connectTimeout
            case is TLSHandshakeError: .tls
            default: Self.lacksResources(error, target) ? .noResources : .unreachable
            }
    }

    private static func lacksResources(_ error: any Error, _ target: TargetRuntime) -> Bool {
        guard let error = ConnectFailureReason.cause(of: error) as? IOError else { return false }
        // Before the first connection it means that the machine has no address of the target's family.
        if error.errnoCode == EADDRNOTAVAIL { return target.wasConnected }
        return AcceptHandler.resourceErrors.contains(error.errnoCode)
    }

    /// The value of the metric label of a failed connection attempt.
    static func connectOutcome(of error: any Error) -> UpstreamConnectOutcome {
        switch error {
        case ChannelError.connectTimeout: .timeout
        case is TLSHandshakeError: .tls
        // No address was tried: the host name has none, or could not be resolved.
        case let error as NIOConnectionError where error.connectionErrors.isEmpty: .dns
        default: .failed
        }
    }

    /// Whether a target failed before a response that can be forwarded.
    var isBeforeResponse: Bool {
        switch kind {
        case .closedBeforeResponse, .invalidResponse, .refused, .cancelled: true
        default: false
        }
    }

    /// The failure as one of an attempt; `nil` if the request is never sent again after it.
    var attemptFailure: RetryDecision.Failure? {
        switch kind {
        case .closedBeforeResponse, .cancelled: .reset
        case .refused, .unprocessed: .refused
        default: nil
        }
    }

    /// The local response for the client, if one can still be sent.
    func problem(for route: RouteRuntime) -> ProblemDocument {
        switch kind {
        case .unreachable, .tls: route.problem(.unreachable)
        case .connectTimeout, .responseTimeout: route.problem(.unreachable, status: 504)
        case .closedBeforeResponse, .closedDuringResponse, .invalidResponse, .refused, .unprocessed, .cancelled:
            route.problem(.failedRequest)
        case .requestHeadTooLarge: route.problem(.headerFieldsTooLarge)
        case .invalidRequest: route.problem(.badRequest)
        case .poolExhausted, .noResources: route.problem(.overloaded, retryAfter: 1)
        }
    }

    /// The value of the metric label.
    var label: ExchangeErrorType {
        switch kind {
        case .unreachable, .tls: .upstreamUnreachable
        case .connectTimeout, .responseTimeout: .upstreamTimeout
        case .closedBeforeResponse, .closedDuringResponse, .refused, .unprocessed, .cancelled: .upstreamReset
        case .requestHeadTooLarge, .invalidRequest: .invalidRequest
        case .invalidResponse: .upstreamInvalidResponse
        case .poolExhausted, .noResources: .overloaded
        }
    }
}
