import CloakroomCore
import CloakroomWire
import NIOCore
import NIOHTTP2

/// Ends of streams and of the connection (RFC 9113 §5.4, §6.8).
extension HTTP2DownstreamHandler {
    // MARK: - Ends of streams

    /// Rejects a malformed request with a stream error.
    func reject(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode) {
        context.reject("http2_stream", from: peer?.address ?? "unknown")
        glitch()
        reset(stream, code)
    }

    func reset(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode) {
        guard !stream.isClosed else { return }
        let id = stream.id
        remove(stream)
        write(.rstStream(code), on: id)
        flushLater()
    }

    /// The stream's request and response are complete.
    func finished(_ stream: HTTP2Stream) {
        forget(stream)
        stream.rest()
        if phase != .closed, recycledStreams.count < 8 { recycledStreams.append(stream) } else { stream.release() }
        afterStream()
    }

    func remove(_ stream: HTTP2Stream) {
        forget(stream)
        stream.close()
        afterStream()
    }

    func forget(_ stream: HTTP2Stream) {
        guard let index = streams.firstIndex(where: { $0 === stream }) else { return }
        let last = streams.count - 1
        if index != last {
            streams.swapAt(index, last)
            streamIDs.swapAt(index, last)
        }
        streams.removeLast()
        streamIDs.removeLast()
    }

    func afterStream() {
        guard streams.isEmpty, phase < .lingering else { return }
        deadline = context.now &+ (phase == .open ? context.snapshot.timeouts.keepAlive : Self.announcementTime)
        flushLater()
    }

    // MARK: - Misbehaving clients

    /// Counts an event that regular clients rarely cause, and closes the connection if the budget is exceeded.
    func glitch() {
        guard phase != .closed, glitches.tryAcquire(at: context.now) == nil else { return }
        context.reject("http2_glitches", from: peer?.address ?? "unknown")
        goAway(.enhanceYourCalm)
        closeNow()
    }

    /// Closes the connection after swift-nio-http2 has sent a GOAWAY with an error.
    func handleBrokenConnection() {
        guard let code = watch.fatalCode, phase != .closed else { return }
        context.reject(code == .enhanceYourCalm ? "http2_flood" : "http2_connection", from: peer?.address ?? "unknown")
        closeNow()
    }

    // MARK: - Ends of the connection

    func goAway(_ code: HTTP2ErrorCode) {
        write(.goAway(lastStreamID: lastStreamID, errorCode: code, opaqueData: nil), on: .rootStream)
        handlerContext?.flush()
    }

    /// Begins a graceful shutdown: asks the client to send no more requests, and accepts those in flight.
    func beginGracefulShutdown() {
        guard phase == .open else { return }
        phase = .goAwaySent
        // Bypasses `NIOHTTP2Handler`, which would reject all further requests: requests sent before the client receives
        // the GOAWAY are served.
        gatherer.insert(Self.graceGoAway)
        // All requests sent before the client read the GOAWAY arrive before the PING acknowledgement.
        write(.ping(HTTP2PingData(withInteger: 0), ack: false), on: .rootStream)
        handlerContext?.flush()
        if streams.isEmpty { deadline = min(deadline, context.now &+ Self.announcementTime) }
    }

    /// GOAWAY with the highest stream id and NO_ERROR (RFC 9113 §6.8).
    static let graceGoAway = ByteBuffer(
        bytes: [0, 0, 8, 0x07, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0])
    static let announcementTime: UInt64 = 1_000_000_000

    func sendFinalGoAway() {
        guard phase == .goAwaySent else { return }
        phase = .draining
        goAway(.noError)
        closeIfDone()
    }

    func closeIfDone() {
        guard phase == .draining, streams.isEmpty, let handlerContext else { return }
        phase = .lingering
        deadline = context.now &+ HTTP1DownstreamHandler.lingerTime
        handlerContext.flush()
        handlerContext.close(mode: .output, promise: nil)
    }

    func deadlineExpired(now: UInt64) {
        guard streams.isEmpty else {
            deadline = .max
            return
        }
        switch phase {
        case .open:
            // The idle timeout has passed.
            phase = .draining
            goAway(.noError)
            closeIfDone()
        case .goAwaySent: sendFinalGoAway()
        case .draining, .lingering, .closed: closeNow()
        }
    }

    var usesTLS: Bool { client.isTLS }

    func drain() {
        // A client that has sent a GOAWAY itself needs no first one.
        if phase == .goAwaySent { sendFinalGoAway() } else { beginGracefulShutdown() }
    }

    func closeNow() {
        guard phase != .closed else { return }
        phase = .closed
        handlerContext?.flush()
        handlerContext?.close(promise: nil)
    }
}
