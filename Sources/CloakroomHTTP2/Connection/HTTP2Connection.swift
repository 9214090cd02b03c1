public import CloakroomWire
public import NIOCore

/// The server's side of an HTTP/2 connection (RFC 9113): frames, header compression, streams, flow control and limits.
///
/// No I/O. The owner passes the client's bytes to ``next(_:head:now:)`` until ``HTTP2Event/needsInput``, writes responses
/// by slot, and sends ``output``. Each stream has a slot, a small number that is reused after the stream has ended.
///
/// Module `CloakroomHTTP2`: HTTP/2 frames and HPACK without I/O; knows no session, route or configuration.
public struct HTTP2Connection: ~Copyable {
    /// Frames to send.
    public var output = ByteBuffer()

    let configuration: HTTP2ConnectionConfiguration
    var decoder = HPACKDecoder()
    var encoder = HPACKEncoder()
    var streams = StreamTable()
    var closedStreams = ClosedStreams()
    var queue = SendQueue()
    var budget: AbuseBudget

    /// Matched bytes of the connection preface; all of them after it.
    private var prefaceCount = 0
    var hasSettings = false
    /// The highest stream id of the client.
    var lastStreamID: UInt32 = 0
    /// The highest stream id that was announced as accepted; it must not increase (RFC 9113 §6.8).
    var announcedStreamID: UInt32 = 0x7fff_ffff
    var block = HeaderBlock()
    private var dataFrame = DataFrame()
    private var failure: HTTP2ErrorCode?
    /// Whether new streams are rejected: the id of the last one that was accepted has been announced.
    var rejectsStreams = false
    /// Whether the acknowledgement of a PING is expected.
    var awaitsPing = false
    /// Replies to control frames since the owner last sent everything.
    var unsentReplies = 0

    /// Remaining send window of the connection in bytes.
    public internal(set) var sendWindow = HTTP2Connection.defaultWindow
    /// Send window of new streams.
    var initialSendWindow = HTTP2Connection.defaultWindow
    var receiveWindow = HTTP2Connection.defaultWindow
    /// Size that the receive window is replenished to.
    var targetWindow = HTTP2Connection.defaultWindow
    /// Bytes consumed since the last WINDOW_UPDATE of the connection.
    var unacknowledgedBytes = 0

    /// Initial flow-control window (RFC 9113 §6.9.2).
    static let defaultWindow = 65_535
    static let maximumWindow = 0x7fff_ffff
    /// A window update below this size, in bytes, is charged to the budget if it unblocks a stream. The remainder at the
    /// end of a window is usually larger.
    static let tinyIncrement = 16
    /// Replies that may wait for a client that does not read.
    static let unsentReplyLimit = 1_000
    /// The connection preface (RFC 9113 §3.4).
    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    /// Creates a connection; the server's SETTINGS are in the output.
    /// - Parameter now: Nanoseconds of a monotonic clock, as in all calls.
    public init(_ configuration: HTTP2ConnectionConfiguration, now: UInt64) {
        self.configuration = configuration
        budget = AbuseBudget(now: now)
        writeSettings()
    }

    /// Number of open streams.
    public var streamCount: Int { streams.count }

    /// Storage of an incomplete header block and of the client's dynamic table, in bytes.
    var receivedStorage: Int { block.bytes.storageCapacity + decoder.allocatedBytes }

    /// Whether a header block has begun and not ended.
    public var isReceivingHeaderBlock: Bool { block.streamID != 0 }

    /// Handles the next complete frame.
    /// - Parameters:
    ///   - input: Bytes received; what is used is removed. An incomplete frame other than DATA stays in it.
    ///   - head: Filled in by a request; otherwise undefined.
    public mutating func next(_ input: inout ByteBuffer, head: inout RequestHead, now: UInt64) -> HTTP2Event {
        while failure == nil {
            guard !budget.isExceeded, unsentReplies <= Self.unsentReplyLimit else { return fail(.enhanceYourCalm) }
            if dataFrame.isOpen {
                guard input.readableBytes > 0 else { return .needsInput }
                if let event = readData(&input) { return event }
                continue
            }
            guard prefaceCount == Self.preface.count else {
                guard readPreface(&input) else { return fail(.protocolError) }
                if prefaceCount < Self.preface.count { return .needsInput }
                continue
            }
            guard let frame = FrameHeader(peekingAt: input) else { return .needsInput }
            guard frame.length <= FrameHeader.maximumLength else { return fail(.frameSizeError) }
            guard hasSettings || frame.type == FrameType.settings else { return fail(.protocolError) }
            if isReceivingHeaderBlock {
                // Nothing may come between the frames of a header block (RFC 9113 §6.10).
                guard frame.type == FrameType.continuation, frame.streamID == block.streamID else {
                    return fail(.protocolError)
                }
            }
            if frame.type == FrameType.data {
                guard let event = beginData(frame, &input, now: now) else { continue }
                return event
            }
            guard input.readableBytes >= FrameHeader.size + frame.length else { return .needsInput }
            input.moveReaderIndex(forwardBy: FrameHeader.size)
            let event = take(
                frame, input.readableBytesUInt8Span.extracting(0..<frame.length), head: &head, now: now)
            input.moveReaderIndex(forwardBy: frame.length)
            if let event { return event }
        }
        input.clear()
        return .needsInput
    }

    /// - Returns: Whether the bytes match the preface so far.
    private mutating func readPreface(_ input: inout ByteBuffer) -> Bool {
        while prefaceCount < Self.preface.count, let byte = input.readInteger(as: UInt8.self) {
            guard byte == Self.preface[prefaceCount] else { return false }
            prefaceCount += 1
        }
        return true
    }

    private mutating func take(
        _ frame: FrameHeader, _ payload: Span<UInt8>, head: inout RequestHead, now: UInt64
    ) -> HTTP2Event? {
        switch frame.type {
        case FrameType.headers: return takeHeaders(frame, payload, head: &head, now: now)
        case FrameType.continuation: return takeContinuation(frame, payload, head: &head, now: now)
        case FrameType.windowUpdate: return takeWindowUpdate(frame, payload, now: now)
        case FrameType.resetStream: return takeReset(frame, payload, now: now)
        case FrameType.settings: return takeSettings(frame, payload, now: now)
        case FrameType.ping: return takePing(frame, payload, now: now)
        case FrameType.priority: return takePriority(frame, payload, now: now)
        case FrameType.goAway:
            guard frame.streamID == 0 else { return fail(.protocolError) }
            guard frame.length >= 8 else { return fail(.frameSizeError) }
            budget.charge(.smallFrame, at: now)
            return .goAwayReceived
        case FrameType.pushPromise: return fail(.protocolError)
        case FrameType.priorityUpdate:
            // Only the field `priority` of a request is evaluated (RFC 9218 §7.1).
            budget.charge(.smallFrame, at: now)
            return nil
        default:
            budget.charge(.emptyFrame, at: now)
            return nil
        }
    }

    // MARK: - Ends

    /// Ends the connection: writes a GOAWAY.
    mutating func fail(_ code: HTTP2ErrorCode) -> HTTP2Event {
        failure = code
        writeGoAway(code)
        return .failed(code)
    }

    /// Resets an open stream for an error of the client.
    mutating func fail(slot: Int, _ code: HTTP2ErrorCode, _ charge: AbuseBudget.Charge, now: UInt64) -> HTTP2Event {
        budget.charge(charge, at: now)
        reset(slot, code)
        return .closed(slot: slot, code)
    }

    /// Resets a stream and forgets it.
    public mutating func reset(_ slot: Int, _ code: HTTP2ErrorCode) {
        let id = streams.id(at: slot)
        guard id != 0 else { return }
        writeReset(id, code)
        close(slot, .reset)
    }

    /// Resets a stream whose request is malformed in a way that only the owner recognizes.
    public mutating func rejectRequest(_ slot: Int, now: UInt64) {
        budget.charge(.malformedRequest, at: now)
        reset(slot, .protocolError)
    }

    /// Forgets a stream: it needs no more frames.
    mutating func close(_ slot: Int, _ end: ClosedStreams.End) {
        let id = streams.id(at: slot)
        guard id != 0 else { return }
        queue.remove(slot, in: &streams)
        let held = streams[slot].heldBytes
        streams.close(slot)
        closedStreams.close(id, end)
        // The window of the connection is shared by all streams (RFC 9113 §6.9.1).
        returnToConnection(held)
    }

    /// The connection is idle: frees memory that it does not need.
    public mutating func compact() {
        guard streams.count == 0, !isReceivingHeaderBlock else { return }
        streams.compact()
        decoder.compact()
        encoder.compact()
        if output.readableBytes == 0 { output = ByteBuffer() }
    }

    // MARK: - DATA (RFC 9113 §6.1)

    /// A DATA frame whose payload is being received. The payload is passed on as it comes.
    private struct DataFrame {
        var isOpen = false
        /// The stream, to recognize that its slot was reused meanwhile.
        var streamID: UInt32 = 0
        var slot = 0
        var remaining = 0
        var remainingPadding = 0
        var endsStream = false
    }

    /// Checks a DATA frame by its header, before any of its payload is passed on.
    /// - Returns: `nil` to continue.
    private mutating func beginData(_ frame: FrameHeader, _ input: inout ByteBuffer, now: UInt64) -> HTTP2Event? {
        guard frame.streamID & 1 == 1, frame.streamID <= lastStreamID else { return fail(.protocolError) }
        var padding = 0
        if frame.has(FrameFlag.padded) {
            guard frame.length > 0 else { return fail(.frameSizeError) }
            guard input.readableBytes > FrameHeader.size else { return .needsInput }
            padding = Int(input.readableBytesUInt8Span[FrameHeader.size]) + 1
            guard padding <= frame.length else { return fail(.protocolError) }
        }
        receiveWindow -= frame.length
        guard receiveWindow >= 0 else { return fail(.flowControlError) }
        input.moveReaderIndex(forwardBy: FrameHeader.size + (padding > 0 ? 1 : 0))
        dataFrame = DataFrame(
            isOpen: true, streamID: frame.streamID, slot: -1, remaining: frame.length - padding,
            remainingPadding: max(0, padding - 1), endsStream: frame.has(FrameFlag.endStream))
        let count = dataFrame.remaining
        if count == 0, !dataFrame.endsStream { budget.charge(.emptyFrame, at: now) }
        guard let slot = streams.slot(of: frame.streamID) else {
            return takeLateData(frame, now: now)
        }
        guard !streams[slot].isRemoteEnded else {
            returnToConnection(frame.length)
            return fail(slot: slot, .streamClosed, .provokedReset, now: now)
        }
        streams[slot].receiveWindow -= frame.length
        guard streams[slot].receiveWindow >= 0 else {
            returnToConnection(frame.length)
            return fail(slot: slot, .flowControlError, .provokedReset, now: now)
        }
        let remaining = streams[slot].remainingLength
        if remaining >= 0 {
            // Checked for the whole frame: a body of the wrong length is reset before its last frame is passed on.
            guard count <= remaining, !dataFrame.endsStream || count == remaining else {
                returnToConnection(frame.length)
                return fail(slot: slot, .protocolError, .provokedReset, now: now)
            }
            streams[slot].remainingLength = remaining - count
        }
        if count >= 1_024 { budget.transferred() }
        dataFrame.slot = slot
        streams[slot].heldBytes += frame.length
        if padding > 0 { consume(padding, on: slot) }
        guard count == 0, dataFrame.remainingPadding == 0 else { return nil }
        dataFrame.isOpen = false
        return endOfData(ByteBuffer())
    }

    /// DATA on a stream that is closed already. Its payload is discarded.
    private mutating func takeLateData(_ frame: FrameHeader, now: UInt64) -> HTTP2Event? {
        returnToConnection(frame.length)
        dataFrame.isOpen = dataFrame.remaining + dataFrame.remainingPadding > 0
        switch closedStreams.end(of: frame.streamID) {
        case .reset:
            budget.charge(.smallFrame, at: now)
        case .unknown:
            budget.charge(.cancelledRequest, at: now)
            writeReset(frame.streamID, .streamClosed)
        case .ended:
            budget.charge(.provokedReset, at: now)
            writeReset(frame.streamID, .streamClosed)
        }
        return nil
    }

    private mutating func readData(_ input: inout ByteBuffer) -> HTTP2Event? {
        // Its stream may have ended meanwhile; then the rest is discarded.
        let isWanted = dataFrame.slot >= 0 && streams.id(at: dataFrame.slot) == dataFrame.streamID
        var bytes = ByteBuffer()
        if dataFrame.remaining > 0 {
            let count = min(dataFrame.remaining, input.readableBytes)
            dataFrame.remaining -= count
            if isWanted, let slice = input.readSlice(length: count) {
                bytes = slice
            } else {
                input.moveReaderIndex(forwardBy: count)
            }
        }
        if dataFrame.remaining == 0, dataFrame.remainingPadding > 0 {
            let count = min(dataFrame.remainingPadding, input.readableBytes)
            dataFrame.remainingPadding -= count
            input.moveReaderIndex(forwardBy: count)
        }
        let isComplete = dataFrame.remaining == 0 && dataFrame.remainingPadding == 0
        if isComplete { dataFrame.isOpen = false }
        guard isWanted else { return nil }
        if isComplete { return endOfData(bytes) }
        return bytes.readableBytes > 0 ? .data(slot: dataFrame.slot, bytes, endsStream: false) : nil
    }

    /// The last bytes of a DATA frame.
    private mutating func endOfData(_ bytes: ByteBuffer) -> HTTP2Event? {
        if dataFrame.endsStream { streams[dataFrame.slot].isRemoteEnded = true }
        guard bytes.readableBytes > 0 || dataFrame.endsStream else { return nil }
        return .data(slot: dataFrame.slot, bytes, endsStream: dataFrame.endsStream)
    }
}
