import NIOCore
import NIOSSL
import Synchronization
import TestSupport

/// A client that performs a handshake and reads data. It accepts every certificate, and records the server's.
final class TLSClient: Sendable {
    private final class Presented: Sendable {
        let certificate = Mutex<NIOSSLCertificate?>(nil)
    }

    private let peer: RawPeer
    private let presented: Presented

    private init(peer: RawPeer, presented: Presented) {
        self.peer = peer
        self.presented = presented
    }

    /// Connects to loopback, and waits for the handshake and the server's greeting, or the end of the connection.
    /// - Parameter isGreeted: Whether the server sends data first; otherwise the client waits for its certificate only.
    static func connect(
        port: Int, serverName: String? = nil, isGreeted: Bool = true,
        adjust: (inout TLSConfiguration) throws -> Void = { _ in }
    ) async throws -> TLSClient {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .noHostnameVerification
        try adjust(&configuration)
        let context = try NIOSSLContext(configuration: configuration)
        let presented = Presented()
        let peer = try await RawPeer.connect(port: port, allowsHalfClosure: false) {
            [
                try NIOSSLClientHandler(
                    context: context, serverHostname: serverName,
                    customVerificationCallback: { certificates, promise in
                        presented.certificate.withLock { $0 = certificates.first }
                        promise.succeed(.certificateVerified)
                    })
            ]
        }
        let client = TLSClient(peer: peer, presented: presented)
        try await eventually("a greeting") {
            client.isClosed || (isGreeted ? client.isServed : client.certificate != nil)
        }
        return client
    }

    /// The data received so far.
    var text: String { peer.unread }
    /// Whether the server has closed the connection, before or after the handshake.
    var isClosed: Bool { peer.isClosed }
    /// The server's certificate.
    var certificate: NIOSSLCertificate? { presented.certificate.withLock { $0 } }
    /// Whether the server has sent any data.
    var isServed: Bool { text.contains("subject=") }

    /// The first common name of the server's certificate.
    var serverName: String? {
        certificate?.description.split(separator: "common_name=").last.map { String($0.prefix { $0 != ";" }) }
    }

    /// Sends a line and waits for its echo.
    func echo(_ line: String) async throws {
        peer.send(line + "\n")
        try await eventually("the line \(line)") { self.text.hasSuffix(line + "\n") }
    }

    func send(_ text: String) { peer.send(text) }

    func close() async throws {
        if !isClosed { try? await peer.close() }
    }
}
