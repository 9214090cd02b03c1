import CloakroomCore
import CloakroomProxy
import NIOCore
import TestSupport

/// The opening handshake of a WebSocket (RFC 6455 §1.2).
enum Handshake {
    /// A client's handshake request.
    static func request(_ path: String = "/public/socket", _ fields: String...) -> String {
        let lines =
            [
                "GET \(path) HTTP/1.1", "Host: gateway.test", "Connection: keep-alive, Upgrade", "Upgrade: WebSocket",
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
                "Sec-WebSocket-Protocol: chat, superchat", "Sec-WebSocket-Extensions: permessage-deflate",
            ] + fields
        return lines.joined(separator: "\r\n") + "\r\n\r\n"
    }

    /// The upstream's 101 response.
    static let consent =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
}

/// Frames of a WebSocket (RFC 6455 §5.2).
enum Frame {
    /// A text from a server.
    static func text(_ text: String) -> ByteBuffer {
        var frame = ByteBuffer(bytes: [0x81, UInt8(text.utf8.count)])
        frame.writeString(text)
        return frame
    }

    /// A text frame from a client, masked with zeros so that the text stays readable.
    static func masked(_ text: String) -> ByteBuffer {
        var frame = ByteBuffer(bytes: [0x81, 0x80 | UInt8(text.utf8.count), 0, 0, 0, 0])
        frame.writeString(text)
        return frame
    }

    /// The code of an unmasked Close frame, if the bytes contain nothing else.
    static func closeCode(_ bytes: ByteBuffer) -> UInt16? {
        var bytes = bytes
        guard bytes.readableBytes == 4, bytes.readInteger(as: UInt16.self) == 0x8802 else { return nil }
        return bytes.readInteger()
    }

    /// The code of a masked Close frame, if the bytes contain nothing else.
    static func maskedCloseCode(_ bytes: ByteBuffer) -> UInt16? {
        var bytes = bytes
        guard bytes.readableBytes == 8, bytes.readInteger(as: UInt16.self) == 0x8882,
            let mask = bytes.readInteger(as: UInt32.self), let code = bytes.readInteger(as: UInt16.self)
        else { return nil }
        return code ^ UInt16(truncatingIfNeeded: mask >> 16)
    }
}

/// A WebSocket through the gateway. The test controls both ends.
struct Tunnel {
    let gateway: RunningGateway
    let server: RawServer
    let client: RawPeer
    let upstream: RawPeer

    /// One side, and the other one.
    func sides(_ isClient: Bool) -> (RawPeer, RawPeer) { isClient ? (client, upstream) : (upstream, client) }

    /// A gateway all of whose routes allow WebSockets.
    static func gateway(
        _ setup: GatewaySetup = GatewaySetup(),
        configuration adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in },
        body: (RunningGateway, RawServer) async throws -> Void
    ) async throws {
        try await RawServer.run { port, server in
            try await setup.with(\.upstreamPort, port)
                .configuration { configuration in
                    for index in configuration.routes.indices { configuration.routes[index].allowsWebSocket = true }
                    adjust(&configuration)
                }
                .run { gateway in try await body(gateway, server) }
        }
    }

    static func open(
        _ setup: GatewaySetup = GatewaySetup(), request: String = Handshake.request(), receiveBuffer: Int? = nil,
        configuration adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in },
        body: (Tunnel) async throws -> Void
    ) async throws {
        try await gateway(setup, configuration: adjust) { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port, receiveBuffer: receiveBuffer, sending: request)
            let upstream = try await server.requested()
            upstream.send(Handshake.consent)
            _ = try await client.head()
            try await body(Tunnel(gateway: gateway, server: server, client: client, upstream: upstream))
        }
    }
}

extension RunningGateway {
    /// Ends the session of ``Ask/cookie``, as a sign-out does.
    func signOut() async throws {
        _ = try await sessions.end(Ask.ticket, reason: .signedOut, now: SessionTime(seconds: 0))
    }
}
