import CloakroomWire
import NIOCore
import NIOHPACK
import NIOHTTP2

/// Scheduling of streams and flow control (RFC 9113 §5.2).
extension HTTP2DownstreamHandler {
    /// Adds a stream to the send queue if it has data to send.
    func enqueue(_ stream: HTTP2Stream) {
        if !stream.isQueued, stream.hasOutput {
            stream.isQueued = true
            queue.append(stream)
        }
        flushLater()
    }

    /// Whether the given number of bytes could be sent immediately.
    func hasSendWindow(for count: Int) -> Bool {
        count <= connectionWindow && channel.isWritable
    }

    /// Schedules a flush after all events of this event loop tick, so all streams share one system call.
    func flushLater() {
        guard !isFlushDue else { return }
        isFlushDue = true
        context.flushLater(self)
    }

    /// Sends as much as the windows allow, round robin over the streams.
    func flushNow() {
        isFlushDue = false
        guard let handlerContext, phase < .lingering else { return }
        var blocked: [HTTP2Stream] = []
        var turns = queue
        queue = []
        var index = 0
        var budget = Self.flushLimit
        while index < turns.count {
            let stream = turns[index]
            index += 1
            stream.isQueued = false
            guard stream.hasOutput else { continue }
            // An empty END_STREAM frame needs no window.
            guard channel.isWritable, budget > 0, connectionWindow > 0 || !stream.hasBody else {
                blocked.append(stream)
                continue
            }
            let sent = stream.send(upTo: min(Self.sendQuantum, connectionWindow))
            connectionWindow -= sent
            writtenBytes &+= sent
            budget -= sent
            if stream.hasOutput, !stream.isBlocked { turns.append(stream) }
        }
        for stream in blocked where stream.hasOutput && !stream.isQueued {
            stream.isQueued = true
            queue.append(stream)
        }
        handlerContext.flush()
        reconcileSendWindow()
        sendLateResets(handlerContext)
        if budget <= 0, channel.isWritable { flushLater() }
        handleBrokenConnection()
        closeIfDone()
    }

    func write(_ headers: HPACKHeaders, on id: HTTP2StreamID, endsStream: Bool) {
        write(.headers(.init(headers: headers, endStream: endsStream)), on: id)
    }

    func write(data: ByteBuffer, on id: HTTP2StreamID, endsStream: Bool) {
        write(.data(.init(data: .byteBuffer(data), endStream: endsStream)), on: id)
    }

    func write(trailers: ByteBuffer, on id: HTTP2StreamID) {
        var fields = HTTP2ResponseFields()
        fields.add(lines: trailers.readableBytesUInt8Span)
        write(fields.headers, on: id, endsStream: true)
    }

    func write(_ payload: HTTP2Frame.FramePayload, on id: HTTP2StreamID) {
        handlerContext?.write(wrapOutboundOut(HTTP2Frame(streamID: id, payload: payload)), promise: nil)
    }

    /// Increases the receive window of a stream by the given number of bytes.
    func sendWindowUpdate(_ count: Int, to id: HTTP2StreamID) {
        write(.windowUpdate(windowSizeIncrement: count), on: id)
        flushLater()
    }

    func touch(_ stream: HTTP2Stream) {
        guard !stream.needsUpstreamFlush else { return }
        stream.needsUpstreamFlush = true
        streamsToFlush.append(stream)
    }
}
