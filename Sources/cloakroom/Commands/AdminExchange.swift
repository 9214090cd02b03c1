import AsyncHTTPClient
import CloakroomCore
import CloakroomTLS
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// One request of a command to an admin listener. The server on its address may be another program, so nothing that it
/// sent is part of the text of a failure.
enum AdminExchange {
    /// Why there is no response, as one sentence.
    struct Failure: Error, CustomStringConvertible {
        let description: String

        init(_ description: String) { self.description = description }
    }

    /// - Parameters:
    ///   - address: The listener in the text of a failure.
    ///   - caFile: The authorities of the listener's certificate; `nil` for those of the system.
    static func get(
        _ url: String, at address: String, token: Secret? = nil, caFile: String?, limit: Duration, maximumBytes: Int
    ) async throws(Failure) -> (status: HTTPResponseStatus, body: Data) {
        var request = HTTPClientRequest(url: url)
        if let token {
            request.headers.add(name: "authorization", value: "Bearer " + String(decoding: token.bytes, as: UTF8.self))
        }
        // The admin listener never redirects, so a redirect comes from another server; it must not get the token.
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        // Otherwise the reason of a refused connection is known only at the end of the time limit.
        configuration.connectionPool.retryConnectionEstablishment = false
        if let caFile {
            do {
                configuration.tlsConfiguration = try UpstreamTLS.configuration(UpstreamTLSConfiguration(caFile: caFile))
            } catch {
                throw Failure("\(error)")
            }
        }
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let result = await Result {
            try await TimeLimit.run(limit) { [request] in
                let response = try await client.execute(request, timeout: TimeAmount(limit))
                let body = try await response.body.collect(upTo: maximumBytes)
                return (response.status, Data(body.readableBytesView))
            }
        }
        try? await client.shutdown()
        do {
            return try result.get()
        } catch {
            throw Failure(failure(error, at: address, limit: limit))
        }
    }

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
