import AsyncHTTPClient
import CloakroomCore
import CloakroomTLS
import NIOCore
import NIOPosix
import NIOSSL

extension TokenClientError {
    /// The error of a call without a usable response, classified by the type of its cause. The kind is `unreachable`,
    /// `timedOut` or `invalidResponse`.
    init(_ cause: any Error, in call: Operation) {
        if let error = cause as? TokenClientError { self = error } else { self.init(Kind(transport: cause), in: call) }
    }
}

extension TokenClientError.Kind {
    /// The kind of failure of a connection.
    init(transport error: any Error) {
        self =
            switch error {
            case let error as TokenClientError: error.kind
            case let error as HTTPClientError: Self.kind(error)
            case ChannelError.connectTimeout: .timedOut
            case is ChannelError, is NIOConnectionError, is IOError, is CancellationError, is NIOSSLError,
                is NIOSSLExtraError, is ServerNameVerifier.Mismatch:
                .unreachable
            default: .invalidResponse
            }
    }

    private static func kind(_ error: HTTPClientError) -> Self {
        switch error {
        case .connectTimeout, .deadlineExceeded, .readTimeout, .writeTimeout, .getConnectionFromPoolTimeout,
            .tlsHandshakeTimeout:
            .timedOut
        default: .unreachable
        }
    }
}
