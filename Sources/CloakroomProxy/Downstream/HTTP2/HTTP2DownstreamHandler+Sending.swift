import CloakroomWire
import NIOCore
import NIOHPACK
import NIOHTTP2

/// In which order streams send, and how much (RFC 9113 §5.2).
extension HTTP2DownstreamHandler {
    /// The stream has something to send, when its turn comes.
    func enqueue(_ stream: HTTP2Stream) {
        if !stream.isQueued, stream.hasOutput {
            stream.isQueued = true
            queue.append(stream)
        }
        flushLater()
    }

    /// Whether so many bytes could be sent right away.
    func hasSendWindow(for count: Int) -> Bool {
        count <= connectionWindow && channel.isWritable
    }

    /// What is written is sent once all events of this turn of the loop have been handled: one system call for all streams.
    func flushLater() {
        guard !isFlushDue else { return }
        isFlushDue = true
        context.flushLater(self)
    }

    /// Sends what there is room for: each stream some, in turns.
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
            // An end without body needs no room.
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

    /// The client may send so many bytes more on a stream.
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
