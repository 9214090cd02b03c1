import CloakroomCore
import CloakroomTelemetry
import NIOCore

/// Why an upstream gave no whole answer.
struct UpstreamFailure: Error, Equatable {
    enum Kind: Equatable {
        /// No connection could be made.
        case unreachable
        /// No connection could be made in time.
        case connectTimeout
        /// A connection was made, and its other end could not prove who it is, or would not have us.
        case tls
        /// No response head came in time.
        case responseTimeout
        /// The connection broke before a byte of the answer.
        case closedBeforeResponse
        /// The connection broke in the middle of the answer.
        case closedDuringResponse
        /// The answer is not HTTP, or could be read in two ways.
        case invalidResponse
        /// No connection became free, in time or at all.
        case poolExhausted
    }

    let kind: Kind

    init(_ kind: Kind) {
        self.kind = kind
    }

    /// Why there is no connection.
    init(connecting error: any Error) {
        kind =
            switch error {
            case ChannelError.connectTimeout: .connectTimeout
            case is TLSHandshakeError: .tls
            default: .unreachable
            }
    }

    /// The answer that the client gets, if it can still get one.
    func problem(for route: RouteRuntime) -> ProblemDocument {
        switch kind {
        case .unreachable, .tls: route.problem(.unreachable)
        case .connectTimeout, .responseTimeout: route.problem(.unreachable, status: 504)
        case .closedBeforeResponse, .closedDuringResponse, .invalidResponse: route.problem(.failedRequest)
        case .poolExhausted: route.problem(.overloaded, retryAfter: 1)
        }
    }

    /// The name in metrics.
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
