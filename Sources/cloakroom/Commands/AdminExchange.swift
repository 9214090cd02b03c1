import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// Why a command got no response of an admin listener. The server on its address may be another program, so nothing that
/// it sent is part of the text.
enum AdminExchange {
    /// One sentence with the address, the reason, and what to check.
    static func failure(_ error: any Error, at address: String, limit: Duration) -> String {
        "\(address) does not respond: \(reason(error, limit: limit))"
    }

    private static func reason(_ error: any Error, limit: Duration) -> String {
        switch error {
        case let error as NIOConnectionError:
            // The library lists the errors of all addresses.
            error.connectionErrors.last.map { reason($0.error, limit: limit) }
                ?? "the name has no address (check the host name, and the DNS of this machine)"
        case let error as IOError where error.errnoCode == ECONNREFUSED:
            "no process listens on this address (start the gateway, or write the address of admin.address)"
        case let error as IOError:
            "\(SystemError.text(error.errnoCode)) (check that the gateway runs, and that its address can be reached)"
        case let error as HTTPClientError where error == .remoteConnectionClosed: closed
        case ChannelError.eof, ChannelError.ioOnClosedChannel: closed
        // The client's other errors are its own time limits.
        case is HTTPClientError, ChannelError.connectTimeout, is CancellationError:
            "no complete response within \(Int(limit / .seconds(1))) s"
                + " (check that the gateway runs, the port, and firewalls between)"
        case is HTTPParserError:
            "the response is not HTTP (check the port: it may be that of another program)"
        case is NIOTooManyBytesError:
            "the response is too large (check the port: it may be that of another program)"
        case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError:
            "the TLS handshake failed (check --ca-file, and that the address is in the certificate)"
        default:
            "the connection failed (check the address, and that the gateway runs)"
        }
    }

    private static let closed =
        "the connection was closed without a response (check the port, and whether admin.tls is configured)"
}

/// Errors of the operating system.
enum SystemError {
    /// The description of an error number, in lower case.
    static func text(_ number: Int32) -> String { String(cString: strerror(number)).lowercased() }
}
