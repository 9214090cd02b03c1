import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

/// What the gateway does when a connection reports that frames break a rule; the rules are tested with the connection.
@Suite("Frames that break the rules of HTTP/2", .serialized)
struct HTTP2FrameRuleTests {
    @Test(
        "RFC 9113: the connection ends with the correct error code and is closed; others are served",
        arguments: [
            (HTTP2WireFrame.data(0, "a"), HTTP2ErrorCode.protocolError),
            (.headers(1, block: [0x80]), .compressionError),
            (HTTP2WireFrame(type: 8, stream: 0, payload: [0, 0, 1]), .frameSizeError),
            (.windowUpdate(0, 0x7fff_ffff), .flowControlError),
        ])
    func connectionError(_ frame: HTTP2WireFrame, _ code: HTTP2ErrorCode) async throws {
        try await GatewaySetup([.head]).runHTTP2 { gateway, client in
            try await client.settle()
            client.send(frame)
            try await expect(client.error(), equals: code)
            try await client.closed()
            try await expect(gateway.serves())
            try await gateway.metric("cloakroom_rejections_total{reason=\"http2_connection\"} 1")
        }
    }

    @Test(
        "RFC 9113 §6.9: errors of one stream do not affect other streams",
        arguments: [
            (HTTP2WireFrame.windowUpdate(1, 0), HTTP2ErrorCode.protocolError), (.data(1, "a"), .streamClosed),
        ])
    func streamError(_ frame: HTTP2WireFrame, _ code: HTTP2ErrorCode) async throws {
        try await GatewaySetup([.request], [.request, .send(Reply.ok), .again]).runHTTP2 { gateway, client in
            client.send(.headers(1, .get()))
            _ = try await gateway.upstream.request()
            client.send(frame)
            try await expect(client.reset(1), equals: code)
            // The exchange ends, and its upstream connection is closed.
            try await gateway.upstream.closed()
            try await expect(client.exchange(3, .get()).text, equals: "ok")
            expect(empty: client.goAways)
        }
    }
}
