import AsyncHTTPClient
import CloakroomCore
import CloakroomTLS
import NIOCore
import NIOPosix
import NIOSSL

/// The failure of a call without a usable response.
struct IdentityTransportError: Error, Equatable {
    /// The kind of failure.
    enum Kind: Sendable {
        /// Connecting failed, or the connection was lost.
        case unreachable
        /// No response within the time limit.
        case timedOut
        /// The response is not valid HTTP, or too large.
        case invalidResponse
    }

    /// The kind of failure.
    var kind: Kind
    /// Whether no connection was established, so that no byte of the call was sent.
    var isUnsent = false

    init(_ kind: Kind, isUnsent: Bool = false) {
        self.kind = kind
        self.isUnsent = isUnsent
    }

    /// Classifies an error by its type.
    init(_ error: any Error) {
        switch error {
        case let error as IdentityTransportError: self = error
        case let error as HTTPClientError: self.init(Self.kind(error))
        case let error as ChannelError: self.init(Self.kind(error))
        case is NIOConnectionError, is IOError, is CancellationError, is NIOSSLError, is NIOSSLExtraError,
            is ServerNameVerifier.Mismatch:
            self.init(.unreachable)
        default: self.init(.invalidResponse)
        }
    }

    private static func kind(_ error: ChannelError) -> Kind {
        if case .connectTimeout = error { .timedOut } else { .unreachable }
    }

    private static func kind(_ error: HTTPClientError) -> Kind {
        switch error {
        case .connectTimeout, .deadlineExceeded, .readTimeout, .writeTimeout, .getConnectionFromPoolTimeout,
            .tlsHandshakeTimeout:
            .timedOut
        default: .unreachable
        }
    }

    /// Converts the error for the caller of a token client.
    func asTokenClientError(in call: TokenClientError.Operation) -> TokenClientError {
        switch kind {
        case .unreachable: TokenClientError(.unreachable, in: call, isUnjudged: isUnsent)
        case .timedOut: TokenClientError(.timedOut, in: call, isUnjudged: isUnsent)
        case .invalidResponse: TokenClientError(.invalidResponse, in: call)
        }
    }
}

extension TokenClientError.Kind {
    /// A constant word for the log; `nil` if the server rejected the credential of a user, which is no failure.
    var failureReason: String? {
        switch self {
        case .rejected: nil
        case .unreachable: "unreachable"
        case .timedOut: "timed_out"
        case .invalidResponse: "invalid_response"
        case .busy: "busy"
        case .misconfigured(let reason): reason.rawValue
        }
    }
}
