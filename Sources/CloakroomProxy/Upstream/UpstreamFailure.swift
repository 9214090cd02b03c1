import CloakroomCore
import CloakroomTelemetry
import NIOCore

/// Reason that an upstream returned no complete response.
struct UpstreamFailure: Error, Equatable {
    enum Kind: Equatable {
        /// No connection could be established.
        case unreachable
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
        /// No connection became available in time, or the queue was full.
        case poolExhausted
    }

    let kind: Kind

    init(_ kind: Kind) {
        self.kind = kind
    }

    /// Classifies an error of a connection attempt.
    init(connecting error: any Error) {
        kind =
            switch error {
            case ChannelError.connectTimeout: .connectTimeout
            case is TLSHandshakeError: .tls
            default: .unreachable
            }
    }

    /// The local response for the client, if one can still be sent.
    func problem(for route: RouteRuntime) -> ProblemDocument {
        switch kind {
        case .unreachable, .tls: route.problem(.unreachable)
        case .connectTimeout, .responseTimeout: route.problem(.unreachable, status: 504)
        case .closedBeforeResponse, .closedDuringResponse, .invalidResponse: route.problem(.failedRequest)
        case .poolExhausted: route.problem(.overloaded, retryAfter: 1)
        }
    }

    /// The value of the metric label.
    var label: ExchangeErrorType {
        switch kind {
        case .unreachable, .tls: .upstreamUnreachable
        case .connectTimeout, .responseTimeout: .upstreamTimeout
        case .closedBeforeResponse, .closedDuringResponse: .upstreamReset
        case .invalidResponse: .upstreamInvalidResponse
        case .poolExhausted: .overloaded
        }
    }
}
