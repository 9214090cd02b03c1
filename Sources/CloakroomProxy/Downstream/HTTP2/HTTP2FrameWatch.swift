import NIOCore
import NIOHTTP2

/// Observes the frames that swift-nio-http2 writes: after a GOAWAY with an error the connection must be closed.
final class HTTP2FrameObserver: NIOHTTP2FrameDelegate {
    /// The error code of a GOAWAY that was sent; `nil` without one.
    private(set) var fatalCode: HTTP2ErrorCode?

    /// Number of body bytes sent.
    private(set) var bodyBytes = 0

    func wroteFrame(_ frame: HTTP2Frame) {
        if case .data(let payload) = frame.payload { bodyBytes &+= payload.data.readableBytes }
        if case .goAway(_, let code, _) = frame.payload, code != .noError { fatalCode = code }
    }
}
