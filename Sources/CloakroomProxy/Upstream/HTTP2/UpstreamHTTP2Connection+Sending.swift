import CloakroomCore
import CloakroomTelemetry
import DequeModule
import NIOCore
import NIOHPACK
import NIOHTTP2

/// What an exchange queues, and how it is written at the end of an event loop tick.
extension UpstreamHTTP2Connection {
    // MARK: - Called by streams

    /// The stream has something to send.
    func enqueue(_ stream: UpstreamStream) {
        if !stream.isQueued, stream.hasOutput || stream.sendingProblem != nil, stream.isServing {
            stream.isQueued = true
            queue.append(stream)
        }
        flushLater()
    }

    /// The exchange takes more of the response.
    func resumeLater(_ stream: UpstreamStream) {
        resumed.append(stream)
        flushLater()
    }

    func creditLater(_ stream: UpstreamStream) {
        if consumed.last != stream { consumed.append(stream) }
        flushLater()
    }

    /// The exchange needs nothing more.
    func cancel(_ stream: UpstreamStream) {
        guard stream.id != 0 else { return releaseUnsent(stream) }
        guard table[stream.id] === stream else { return stream.discard() }
        reset(stream, .cancel)
    }

    /// The response is complete before the request: the rest of the request is not sent.
    func abandonRequest(_ stream: UpstreamStream) {
        reset(stream, .cancel)
    }

    /// Responses that are received to be dropped have not ended in time: they are reset, as far as resets are permitted.
    /// A connection that has only such streams serves no request, and is closed.
    func drainingExpired(now: UInt64) {
        machine.drainingEnded()
        guard leases > 0 || machine.room > 0 else { return fail(.cancelled) }
        for stream in table.values where !stream.isServing { reset(stream, .cancel) }
    }

    /// Ends a stream that serves no exchange. If no reset is permitted now, what is left of the response is received and
    /// dropped, and the stream is reset later if it has not ended by then. A stream that is not open is ignored.
    func reset(_ stream: UpstreamStream, _ reason: HTTP2StreamReset) {
        guard table[stream.id] === stream, !resets.contains(where: { $0.stream === stream }) else { return }
        guard machine.mayReset(now: context.now) else {
            stream.drain()
            return machine.draining(now: context.now)
        }
        stream.discard()
        resets.append((stream, reason))
        flushLater()
    }

    private func releaseUnsent(_ stream: UpstreamStream) {
        stream.discard()
        if stream.isQueued {
            stream.isQueued = false
            queue.removeAll { $0 === stream }
        }
        perform(machine.releaseUnsent(now: context.now))
    }

    // MARK: - Writing

    /// Writes the queued frames as far as the windows permit, with one flush.
    func flushNow() {
        resumeStreams()
        guard let handlerContext, !machine.isClosed else { return }
        writeControlFrames(handlerContext)
        // Writes what NIOHTTP2 holds back, so that no HEADERS frame is queued behind it. Afterwards the window that it
        // has reported is exact, unless the channel is not writable.
        handlerContext.flush()
        guard handlerContext.channel.isWritable else { return }
        var writable: [UpstreamStream] = []
        var window = sendWindow
        var blocked = 0
        while blocked < queue.count, handlerContext.channel.isWritable, let stream = queue.popFirst() {
            let wasWritable = stream.isWritable
            switch write(stream, &window, handlerContext) {
            case .again:
                queue.append(stream)
                blocked = 0
            case .done:
                stream.isQueued = false
                blocked = 0
            case .blocked:
                queue.append(stream)
                blocked += 1
            }
            if !wasWritable, stream.isWritable { writable.append(stream) }
        }
        handlerContext.flush()
        for stream in writable { stream.becameWritable() }
    }

    private func resumeStreams() {
        guard !resumed.isEmpty else { return }
        let streams = resumed
        resumed.removeAll(keepingCapacity: true)
        for stream in streams {
            stream.resume()
            if stream.credit > 0 { consumed.append(stream) }
        }
    }

    private func writeControlFrames(_ handlerContext: ChannelHandlerContext) {
        if isPingDue {
            isPingDue = false
            write(.ping(HTTP2PingData(withInteger: context.random()), ack: false), on: 0, handlerContext)
        }
        if receiveWindow <= Self.window / 2 {
            let credit = Self.window - receiveWindow
            write(.windowUpdate(windowSizeIncrement: credit), on: 0, handlerContext)
        }
        while let stream = consumed.popLast() {
            let credit = stream.credit
            guard credit > 0, table[stream.id] === stream else { continue }
            write(.windowUpdate(windowSizeIncrement: credit), on: stream.id, handlerContext)
        }
        guard !resets.isEmpty else { return }
        let pending = resets
        resets.removeAll(keepingCapacity: true)
        for (stream, reason) in pending where table[stream.id] === stream {
            let code = reason == .cancel ? HTTP2ErrorCode.cancel : .protocolError
            metrics?.countReset(code: UInt32(code.networkCode), by: .gateway)
            write(.rstStream(code), on: stream.id, handlerContext)
        }
    }

    private enum WriteResult {
        /// It has more output, after the turn of the other streams.
        case again
        /// Its output is written, or waits for its own window.
        case done
        /// The connection's window, or the peer's limit of streams, does not permit it.
        case blocked
    }

    /// Writes the head, and at most 16 KiB of the body.
    private func write(
        _ stream: UpstreamStream, _ window: inout Int, _ handlerContext: ChannelHandlerContext
    ) -> WriteResult {
        if let problem = stream.sendingProblem {
            failToSend(stream, problem)
            return .done
        }
        guard stream.isServing else { return .done }
        if let head = stream.head {
            guard let id = machine.openStream() else { return .blocked }
            stream.id = id
            stream.head = nil
            stream.sendWindow = initialSendWindow
            stream.readsAtStart = reads
            stream.isEndSent = stream.isHeadOnly
            table[id] = stream
            let payload = HTTP2Frame.FramePayload.Headers(headers: head, endStream: stream.isEndSent)
            write(.headers(payload), on: id, handlerContext)
            intake.sent(0)
            guard stream.hasOutput, stream.isServing else { return .done }
        }
        return writeBody(of: stream, &window, handlerContext)
    }

    private func writeBody(
        of stream: UpstreamStream, _ window: inout Int, _ handlerContext: ChannelHandlerContext
    ) -> WriteResult {
        var turn = Self.turn
        while stream.outboundBytes > 0 {
            guard stream.sendWindow > 0 else { return .done }
            guard window > 0 else { return .blocked }
            guard turn > 0 else { return .again }
            guard let piece = stream.takeBody(upTo: min(turn, stream.sendWindow, window)) else { break }
            intake.sent(piece.readableBytes)
            turn -= piece.readableBytes
            window -= piece.readableBytes
            stream.isEndSent = stream.isHeadOnly
            let data = HTTP2Frame.FramePayload.Data(data: .byteBuffer(piece), endStream: stream.isEndSent)
            write(.data(data), on: stream.id, handlerContext)
        }
        guard stream.isRequestComplete, !stream.isEndSent else { return .done }
        stream.isEndSent = true
        if let trailers = stream.trailers {
            write(.headers(.init(headers: trailers, endStream: true)), on: stream.id, handlerContext)
        } else {
            write(.data(.init(data: .byteBuffer(ByteBuffer()), endStream: true)), on: stream.id, handlerContext)
        }
        return .done
    }

    /// Maximum number of bytes of a body that are written before the other streams have their turn.
    private static let turn = 16_384

    private func failToSend(_ stream: UpstreamStream, _ problem: UpstreamFailure.Kind) {
        // First, so that the lease has ended when the room is reported.
        stream.fail(problem, resetting: .cancel)
        if stream.id == 0 { perform(machine.releaseUnsent(now: context.now)) }
    }

    private func write(_ payload: HTTP2Frame.FramePayload, on id: Int32, _ handlerContext: ChannelHandlerContext) {
        handlerContext.write(
            wrapOutboundOut(HTTP2Frame(streamID: HTTP2StreamID(id), payload: payload)), promise: nil)
    }
}
