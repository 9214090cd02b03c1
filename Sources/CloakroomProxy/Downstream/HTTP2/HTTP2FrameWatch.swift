import NIOCore
import NIOHTTP2

/// Sees what the handler of frames sends of its own accord: a GOAWAY with an error is the end of the connection.
final class HTTP2FrameObserver: NIOHTTP2FrameDelegate {
    /// Why the connection is at its end; `nil` while it is not.
    private(set) var fatalCode: HTTP2ErrorCode?

    /// How many bytes of bodies have gone out.
    private(set) var bodyBytes = 0

    func wroteFrame(_ frame: HTTP2Frame) {
        if case .data(let payload) = frame.payload { bodyBytes &+= payload.data.readableBytes }
        if case .goAway(_, let code, _) = frame.payload, code != .noError { fatalCode = code }
    }
}
