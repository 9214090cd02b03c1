public import CloakroomWire
import NIOCore

/// Responses, and the order in which streams send (RFC 9113 §5.2; RFC 9218).
extension HTTP2Connection {
    /// A stream and the number of body bytes that it sends next.
    public struct Turn {
        /// The stream's slot.
        public let slot: Int
        /// Number of bytes, at least 1.
        public let count: Int
    }

    /// Largest payload of a DATA frame that is sent: with its header it fills a TLS record (RFC 8446 §5.1).
    static let quantum = 16_384 - FrameHeader.size

    /// Whether the slot holds an open stream.
    public func isOpen(_ slot: Int) -> Bool { streams.id(at: slot) != 0 }

    // MARK: - Header blocks

    /// Begins a header block; its fields follow.
    /// - Parameter status: `nil` for trailers.
    /// - Returns: The position of the block, for ``endHeaders(_:on:endsStream:)``.
    public mutating func beginHeaders(status: Int?) -> Int {
        let start = output.writerIndex
        FrameHeader(length: 0, type: FrameType.headers).write(to: &output)
        encoder.begin(status: status, into: &output)
        return start
    }

    /// Adds the fields of an upstream's response that are not stripped.
    /// - Parameter except: Name of a field that is omitted.
    public mutating func addFields(
        of head: borrowing ResponseHead, except: StaticString? = nil, cache: ResponseLineCache
    ) {
        encoder.add(head, except: except, cache: cache, into: &output)
    }

    /// Adds complete field lines in HTTP/1.1 syntax, known to be well formed.
    public mutating func addLines(_ lines: Span<UInt8>, cache: ResponseLineCache) {
        encoder.add(lines: lines, cache: cache, into: &output)
    }

    /// Adds a field that was prepared.
    public mutating func addLine(_ line: PreparedLine) {
        encoder.add(line, into: &output)
    }

    /// Adds one field.
    public mutating func addField(_ name: StaticString, _ value: Span<UInt8>) {
        encoder.add(name: name, value: value, into: &output)
    }

    /// Ends a header block: completes its frames.
    public mutating func endHeaders(_ start: Int, on slot: Int, endsStream: Bool) {
        let id = streams.id(at: slot)
        budget.transferred()
        let length = output.writerIndex - start - FrameHeader.size
        let end = endsStream ? FrameFlag.endStream : 0
        guard length > FrameHeader.maximumLength else {
            FrameHeader(
                length: length, type: FrameType.headers, flags: FrameFlag.endHeaders | end, streamID: id
            ).set(in: &output, at: start)
            return
        }
        // Rare: a block of several frames (RFC 9113 §6.10).
        guard var rest = output.getSlice(at: start + FrameHeader.size, length: length) else { return }
        output.moveWriterIndex(to: start)
        var type = FrameType.headers
        var flags = end
        while let part = rest.readSlice(length: min(rest.readableBytes, FrameHeader.maximumLength)) {
            if rest.readableBytes == 0 { flags |= FrameFlag.endHeaders }
            FrameHeader(length: part.readableBytes, type: type, flags: flags, streamID: id).write(to: &output)
            output.writeImmutableBuffer(part)
            if rest.readableBytes == 0 { break }
            type = FrameType.continuation
            flags = 0
        }
    }

    // MARK: - Bodies

    /// Queues a stream with body bytes to send.
    /// - Parameter count: All bytes that wait.
    public mutating func setPending(_ count: Int, on slot: Int) {
        guard isOpen(slot) else { return }
        streams[slot].pendingBytes = count
        _ = enqueue(slot)
    }

    /// Queues a stream if it may send.
    /// - Returns: Whether it was queued.
    mutating func enqueue(_ slot: Int) -> Bool {
        guard streams[slot].pendingBytes > 0, streams[slot].sendWindow > 0 else { return false }
        queue.append(slot, in: &streams)
        return true
    }

    /// The next stream that may send, and how much. The owner writes it with ``beginData(_:on:endsStream:)``.
    public mutating func nextTurn() -> Turn? {
        while sendWindow > 0, let slot = queue.popFirst(in: &streams) {
            let record = streams[slot]
            let count = min(record.pendingBytes, record.sendWindow, sendWindow, Self.quantum)
            if count > 0 { return Turn(slot: slot, count: count) }
        }
        return nil
    }

    /// Writes the header of a DATA frame; the owner appends its payload to the output, or sends it after the output.
    /// The windows were checked by ``nextTurn()``; a frame without payload needs none.
    public mutating func beginData(_ count: Int, on slot: Int, endsStream: Bool) {
        if count >= Self.tinyIncrement { budget.transferred() }
        sendWindow -= count
        streams[slot].sendWindow -= count
        streams[slot].pendingBytes -= count
        FrameHeader(
            length: count, type: FrameType.data, flags: endsStream ? FrameFlag.endStream : 0,
            streamID: streams.id(at: slot)
        ).write(to: &output)
        _ = enqueue(slot)
    }

    /// Whether all of a response body of this size may be sent in one frame, ahead of streams that wait for a turn.
    public func canSend(_ count: Int, on slot: Int) -> Bool {
        isOpen(slot) && count <= Self.quantum && count <= sendWindow && count <= streams[slot].sendWindow
    }

    /// The remaining send window of a stream.
    public func sendWindow(of slot: Int) -> Int { isOpen(slot) ? streams[slot].sendWindow : 0 }

    /// The response is sent: the stream ends, when the request has ended too.
    /// - Parameter isForwarded: Whether it is that of an upstream. Others cost so little that they pay for nothing.
    public mutating func finish(_ slot: Int, isForwarded: Bool = true) {
        guard isOpen(slot) else { return }
        if isForwarded { budget.responded() }
        guard !streams[slot].isRemoteEnded else { return close(slot, .ended) }
        // All of the body has arrived: only an empty frame with its end is missing, which some clients send separately.
        guard streams[slot].remainingLength != 0 else { return close(slot, .reset) }
        // The rest of the request body is not needed (RFC 9113 §8.1).
        reset(slot, .noError)
    }

    // MARK: - Receive windows

    /// Body bytes were forwarded or dropped: the client may send as many more.
    public mutating func consumed(_ count: Int, on slot: Int) {
        guard isOpen(slot) else { return }
        consume(count, on: slot)
    }

    mutating func consume(_ count: Int, on slot: Int) {
        // What a closed stream still held has been returned already.
        let count = min(count, streams[slot].heldBytes)
        streams[slot].heldBytes -= count
        streams[slot].unacknowledgedBytes += count
        if !streams[slot].isWindowRaised {
            streams[slot].isWindowRaised = true
            streams[slot].unacknowledgedBytes += configuration.streamWindow - configuration.initialStreamWindow
        }
        let open = streams[slot].unacknowledgedBytes
        if open >= configuration.streamWindow / 2, !streams[slot].isRemoteEnded {
            streams[slot].unacknowledgedBytes = 0
            streams[slot].receiveWindow += open
            writeWindowUpdate(open, streamID: streams.id(at: slot))
        }
        returnToConnection(count)
    }

    mutating func returnToConnection(_ count: Int) {
        unacknowledgedBytes += count
        // A quarter, so that what is consumed at once never uses half of the window.
        guard unacknowledgedBytes >= targetWindow / 4 else { return }
        writeWindowUpdate(unacknowledgedBytes, streamID: 0)
        receiveWindow += unacknowledgedBytes
        unacknowledgedBytes = 0
    }

    /// Whether bodies that are not consumed at once use the receive window of the connection, so that a larger one is of
    /// use.
    public var needsReceiveWindow: Bool { receiveWindow < targetWindow / 2 }

    /// Whether bodies use most of the receive window.
    public var isReceiveWindowScarce: Bool { receiveWindow < targetWindow / 4 }

    /// Raises the receive window of the connection.
    /// - Parameter target: Bytes that the client may send before they are consumed.
    public mutating func growReceiveWindow(to target: Int) {
        guard target > targetWindow, target <= Self.maximumWindow else { return }
        let increment = target - targetWindow
        targetWindow = target
        receiveWindow += increment
        writeWindowUpdate(increment, streamID: 0)
    }

    // MARK: - Control frames

    /// Announces the end of the connection: streams after the last one are not accepted.
    public mutating func writeGoAway(_ code: HTTP2ErrorCode) {
        announcedStreamID = min(announcedStreamID, lastStreamID)
        writeGoAway(announcedStreamID, code)
    }

    private mutating func writeGoAway(_ id: UInt32, _ code: HTTP2ErrorCode) {
        FrameHeader(length: 8, type: FrameType.goAway).write(to: &output)
        output.writeMultipleIntegers(id, code.rawValue)
    }

    /// Begins a graceful shutdown: a GOAWAY that accepts all streams (RFC 9113 §6.8), and a PING, whose acknowledgement
    /// follows all requests that the client sent before it read the GOAWAY.
    public mutating func announceShutdown() {
        awaitsPing = true
        writeGoAway(announcedStreamID, .noError)
        FrameHeader(length: 8, type: FrameType.ping).write(to: &output)
        output.writeInteger(UInt64(0))
    }

    /// Ends the grace period: no further stream is accepted.
    public mutating func finishShutdown() {
        rejectsStreams = true
        writeGoAway(.noError)
    }

    /// All output was accepted by the client's side of the network.
    public mutating func outputSent() { unsentReplies = 0 }

    mutating func writeReset(_ id: UInt32, _ code: HTTP2ErrorCode) {
        unsentReplies += 1
        FrameHeader(length: 4, type: FrameType.resetStream, streamID: id).write(to: &output)
        output.writeInteger(code.rawValue)
    }

    private mutating func writeWindowUpdate(_ count: Int, streamID: UInt32) {
        FrameHeader(length: 4, type: FrameType.windowUpdate, streamID: streamID).write(to: &output)
        output.writeInteger(UInt32(truncatingIfNeeded: count))
    }
}
