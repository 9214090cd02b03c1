import CloakroomWire
import NIOCore

/// A header block that is being received in several frames (RFC 9113 §4.3).
struct HeaderBlock {
    /// The stream; 0 if no block is being received.
    var streamID: UInt32 = 0
    var endsStream = false
    /// Whether the client made the stream depend on itself.
    var dependsOnItself = false
    var bytes = ByteBuffer()
}

/// Header blocks: requests and their trailers.
extension HTTP2Connection {
    mutating func takeHeaders(
        _ frame: FrameHeader, _ payload: Span<UInt8>, head: inout RequestHead, now: UInt64
    ) -> HTTP2Event? {
        guard frame.streamID & 1 == 1 else { return fail(.protocolError) }
        var start = 0
        var end = payload.count
        if frame.has(FrameFlag.padded) {
            guard end > 0 else { return fail(.frameSizeError) }
            start = 1
            end -= Int(payload[0])
        }
        var dependsOnItself = false
        if frame.has(FrameFlag.priority) {
            guard end - start >= 5 else { return fail(.frameSizeError) }
            dependsOnItself = payload.uint32(at: start) & 0x7fff_ffff == frame.streamID
            start += 5
        }
        // Padding must not reach into the block (RFC 9113 §6.2).
        guard start <= end else { return fail(.protocolError) }
        let fragment = payload.extracting(start..<end)
        guard frame.has(FrameFlag.endHeaders) else {
            block = HeaderBlock(
                streamID: frame.streamID, endsStream: frame.has(FrameFlag.endStream), dependsOnItself: dependsOnItself)
            block.bytes.writeBytes(fragment.bytes)
            return nil
        }
        return takeBlock(
            frame.streamID, fragment, endsStream: frame.has(FrameFlag.endStream), dependsOnItself: dependsOnItself,
            head: &head, now: now)
    }

    mutating func takeContinuation(
        _ frame: FrameHeader, _ payload: Span<UInt8>, head: inout RequestHead, now: UInt64
    ) -> HTTP2Event? {
        guard block.streamID != 0 else { return fail(.protocolError) }
        let isLast = frame.has(FrameFlag.endHeaders)
        // A block that needs several frames fills each but the last.
        if payload.count < 1_024, !isLast { budget.charge(payload.isEmpty ? .provokedReset : .emptyFrame, at: now) }
        guard block.bytes.readableBytes + payload.count <= configuration.headerBlockLimit else {
            return fail(.enhanceYourCalm)
        }
        block.bytes.writeBytes(payload.bytes)
        guard isLast else { return nil }
        let complete = block
        block = HeaderBlock()
        return takeBlock(
            complete.streamID, complete.bytes.readableBytesUInt8Span, endsStream: complete.endsStream,
            dependsOnItself: complete.dependsOnItself, head: &head, now: now)
    }

    private mutating func takeBlock(
        _ id: UInt32, _ bytes: Span<UInt8>, endsStream: Bool, dependsOnItself: Bool, head: inout RequestHead,
        now: UInt64
    ) -> HTTP2Event? {
        if id > lastStreamID {
            return beginStream(
                id, bytes, endsStream: endsStream, dependsOnItself: dependsOnItself, head: &head, now: now)
        }
        guard let slot = streams.slot(of: id) else { return takeLateBlock(id, bytes, now: now) }
        // Decoded in any case, because later blocks depend on it.
        let result: TrailerBlockResult
        do throws(HPACKError) {
            result = try decoder.decodeTrailers(bytes)
        } catch {
            return fail(.compressionError)
        }
        guard !streams[slot].isRemoteEnded else { return fail(slot: slot, .streamClosed, .provokedReset, now: now) }
        guard endsStream, !dependsOnItself else { return fail(slot: slot, .protocolError, .provokedReset, now: now) }
        guard case .trailers(let section) = result, streams[slot].remainingLength <= 0 else {
            return fail(slot: slot, .protocolError, .provokedReset, now: now)
        }
        streams[slot].isRemoteEnded = true
        return .trailers(slot: slot, section)
    }

    /// A block on a stream that is closed: trailers that were sent before the client noticed.
    private mutating func takeLateBlock(_ id: UInt32, _ bytes: Span<UInt8>, now: UInt64) -> HTTP2Event? {
        switch closedStreams.end(of: id) {
        case .reset: break
        case .ended: return fail(.streamClosed)
        // Ids of new streams must increase (RFC 9113 §5.1.1).
        case .unknown: return fail(.protocolError)
        }
        budget.charge(.emptyFrame, at: now)
        do throws(HPACKError) {
            _ = try decoder.decodeTrailers(bytes)
        } catch {
            return fail(.compressionError)
        }
        return nil
    }

    private mutating func beginStream(
        _ id: UInt32, _ bytes: Span<UInt8>, endsStream: Bool, dependsOnItself: Bool, head: inout RequestHead,
        now: UInt64
    ) -> HTTP2Event? {
        lastStreamID = id
        closedStreams.open(id)
        let result: RequestBlockResult
        do throws(HPACKError) {
            result = try decoder.decodeRequest(bytes, limits: configuration.headLimits, into: &head)
        } catch {
            return fail(.compressionError)
        }
        guard !rejectsStreams, streams.count < configuration.concurrentStreams else {
            budget.charge(.cancelledRequest, at: now)
            writeReset(id, .refusedStream)
            closedStreams.close(id, .reset)
            return nil
        }
        guard result != .malformed, !dependsOnItself else {
            budget.charge(dependsOnItself ? .provokedReset : .malformedRequest, at: now)
            writeReset(id, .protocolError)
            closedStreams.close(id, .reset)
            return .malformedRequest
        }
        var record = StreamRecord()
        record.sendWindow = initialSendWindow
        record.receiveWindow = configuration.initialStreamWindow
        record.isRemoteEnded = endsStream
        switch result {
        case .request(let request):
            record.urgency = request.urgency
            return .request(slot: streams.open(id, record), request, endsStream: endsStream)
        case .tooLarge(let error):
            budget.charge(.malformedRequest, at: now)
            return .oversizedRequest(slot: streams.open(id, record), error, endsStream: endsStream)
        case .malformed: return nil
        }
    }

    /// Declares the length of the request body, so that it is checked.
    /// - Parameter length: Bytes, from `content-length`.
    public mutating func expectBody(_ length: Int, on slot: Int) {
        guard streams.id(at: slot) != 0 else { return }
        streams[slot].remainingLength = length
    }
}
