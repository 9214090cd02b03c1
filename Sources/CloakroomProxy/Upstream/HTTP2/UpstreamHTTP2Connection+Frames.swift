import CloakroomTelemetry
import NIOCore
import NIOHTTP2

/// How NIOHTTP2 is used.
extension UpstreamHTTP2Connection {
    /// Creates the handlers that encode and decode frames, to be added before this one.
    func makeFrameHandlers() -> [any ChannelHandler] {
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        connection.initialSettings = [
            HTTP2Setting(parameter: .enablePush, value: 0),
            HTTP2Setting(parameter: .initialWindowSize, value: settings.streamWindow),
            HTTP2Setting(parameter: .maxHeaderListSize, value: Self.headerListSize),
        ]
        // Invalid responses are found here and end their stream only.
        connection.headerBlockValidation = .disabled
        connection.contentLengthValidation = .disabled
        // The defaults are for servers, and end a connection whose peer behaves well.
        connection.maximumSequentialEmptyDataFrames = 100
        connection.maximumConnectionGlitches = 10_000
        connection.controlFrameRateLimit.maximumCount = 2_000
        connection.controlFrameRateLimit.windowLength = .seconds(1)
        // DATA for a cancelled stream that is not remembered would end the connection.
        connection.maximumRecentlyResetStreams = 1_024
        var stream = NIOHTTP2Handler.StreamConfiguration()
        stream.streamResetFrameRateLimit.maximumCount = 2_000
        stream.streamResetFrameRateLimit.windowLength = .seconds(1)
        stream.streamErrorRateLimit.maximumCount = 2_000
        stream.streamErrorRateLimit.windowLength = .seconds(1)
        ownResets.metrics = metrics
        let frameHandler = NIOHTTP2Handler(
            mode: .client, frameDelegate: ownResets, connectionConfiguration: connection, streamConfiguration: stream)
        return [intake, frameHandler]
    }
}

/// Observes the frames that NIOHTTP2 writes by itself. It reports errors of a stream and of the connection alike; only
/// the former are accompanied by RST_STREAM.
final class HTTP2ResetMonitor: NIOHTTP2FrameDelegate {
    /// Whether frames are written by the connection.
    var isWriting = false
    private var hasReset = false
    /// Counts the resets that NIOHTTP2 decides on.
    var metrics: UpstreamHTTP2Metrics?

    func wroteFrame(_ frame: HTTP2Frame) {
        switch frame.payload {
        case .rstStream(let code) where !isWriting:
            hasReset = true
            metrics?.countReset(code: UInt32(code.networkCode), by: .gateway)
        case .goAway: hasReset = false
        default: break
        }
    }

    /// Whether a stream was reset since the last call.
    func takeReset() -> Bool {
        defer { hasReset = false }
        return hasReset
    }
}

/// Flow control (RFC 9113 §5.2).
extension UpstreamHTTP2Connection {
    func changeInitialWindow(to size: Int) {
        let change = size - initialSendWindow
        initialSendWindow = size
        for stream in table.values {
            stream.sendWindow += change
            if change > 0 { enqueue(stream) }
        }
    }

    func windowUpdated(_ event: NIOHTTP2WindowUpdatedEvent) {
        guard event.streamID != .rootStream else {
            if let size = event.outboundWindowSize {
                let wasBlocked = sendWindow <= 0
                sendWindow = size
                if wasBlocked, size > 0, !queue.isEmpty { flushLater() }
            }
            if let size = event.inboundWindowSize {
                receiveWindow = size
                if size <= Self.window / 2 { flushLater() }
            }
            return
        }
        guard let stream = table[Int32(event.streamID)] else { return }
        if let size = event.inboundWindowSize {
            stream.receiveWindow = size
            if stream.credit > 0 { creditLater(stream) }
        }
        if let size = event.outboundWindowSize {
            let wasBlocked = stream.sendWindow <= 0
            stream.sendWindow = size
            if wasBlocked, size > 0 { enqueue(stream) }
        }
    }
}
