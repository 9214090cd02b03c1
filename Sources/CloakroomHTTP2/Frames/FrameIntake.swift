import CloakroomWire
package import NIOCore

/// Divides the bytes of an HTTP/2 server into parts that a decoder can process completely: whole frames, and whole
/// header blocks.
///
/// NIOHTTP2's decoder appends each read to its buffer and releases consumed bytes only when a frame ends with the
/// buffer. A server whose reads always end inside a frame would make it keep everything. So incomplete frames wait here.
/// The exception is DATA without padding, which the decoder passes on as it arrives. Frames of unknown types end here
/// (RFC 9113 §5.5), and frames that transfer nothing have a budget.
///
/// A value without I/O. The ordinary read, which ends with a frame or inside a DATA frame, is neither copied nor sliced.
package struct FrameIntake {
    /// Why the connection has to end.
    package enum Problem: Error {
        /// The server sends a frame that is larger than permitted, or does not use HTTP/2.
        case frameTooLarge
        /// A header block exceeds ``FrameIntake/maximumBlock``.
        case headerBlockTooLarge
        /// Another frame within a header block (RFC 9113 §6.2).
        case interruptedHeaderBlock
        /// More frames that transfer nothing than ``AbuseBudget`` permits.
        case tooManyFrames
    }

    /// Maximum size of the frames of a header block, in bytes.
    package static let maximumBlock = 131_072

    /// Received bytes that were not passed on.
    private var input = ByteBuffer()
    /// Number of bytes at the start of the input that are frames of an incomplete header block.
    private var blockSize = 0
    /// Number of bytes that are missing of a DATA frame whose start was passed on.
    private var missingData = 0
    /// Number of bytes that are missing of a frame that is dropped.
    private var missingUnknown = 0
    private var budget: AbuseBudget
    /// Number of sent bytes for which the server may open windows at no charge. Each counts for two windows.
    private var unacknowledged = 0

    /// - Parameter now: Nanoseconds of a monotonic clock.
    package init(now: UInt64) { budget = AbuseBudget(now: now) }

    /// Storage of the input, in bytes.
    package var storage: Int { input.storageCapacity }

    /// A request head, or part of a request body, was sent.
    /// - Parameter count: Number of bytes of the body.
    package mutating func sent(_ count: Int) {
        budget.transferred()
        unacknowledged += 2 * count
    }

    /// Bytes were received. They are moved out of the argument, so their storage has no other owner.
    package mutating func receive(_ bytes: inout ByteBuffer) {
        if input.readableBytes == 0 {
            input = bytes
        } else {
            input.writeBuffer(&bytes)
        }
        bytes = ByteBuffer()
    }

    /// Returns the next part for the decoder; `nil` if more bytes are needed. To be called until then after each read.
    /// - Throws: After all frames before the invalid one were returned.
    package mutating func next(now: UInt64) throws(Problem) -> ByteBuffer? {
        dropUnknown()
        var rest = input
        let data = min(missingData, rest.readableBytes)
        missingData -= data
        rest.moveReaderIndex(forwardBy: data + blockSize)
        // Number of bytes to return.
        var count = data
        while let header = FrameHeader(peekingAt: rest) {
            let size = FrameHeader.size + header.length
            let received = min(size, rest.readableBytes)
            let isUnknown = header.type > FrameType.continuation
            let isPlainData = header.type == FrameType.data && !header.has(FrameFlag.padded)
            do throws(Problem) {
                try check(header)
                guard !isUnknown || count == 0 else { break }
                // A decoder that has only the header of a DATA frame keeps its bytes.
                guard isUnknown || received == size || isPlainData && received > FrameHeader.size else { break }
                try charge(header, rest, now: now)
            } catch {
                guard count > 0 else { throw error }
                break
            }
            guard !isUnknown else {
                missingUnknown = size
                dropUnknown()
                rest = input
                continue
            }
            missingData = size - received
            rest.moveReaderIndex(forwardBy: received)
            blockSize = header.leavesBlockOpen ? blockSize + size : 0
            if blockSize == 0 { count = rest.readerIndex - input.readerIndex }
        }
        return take(count)
    }

    /// Removes bytes from the input, without a copy.
    private mutating func take(_ count: Int) -> ByteBuffer? {
        guard count > 0 else {
            input.releaseReadStorage()
            return nil
        }
        guard count == input.readableBytes else { return input.readSlice(length: count) }
        defer { input = ByteBuffer() }
        return input
    }

    private mutating func dropUnknown() {
        let count = min(missingUnknown, input.readableBytes)
        input.moveReaderIndex(forwardBy: count)
        missingUnknown -= count
    }

    private func check(_ header: FrameHeader) throws(Problem) {
        guard header.length <= FrameHeader.maximumLength else { throw .frameTooLarge }
        guard blockSize == 0 || header.type == FrameType.continuation else { throw .interruptedHeaderBlock }
        guard blockSize + FrameHeader.size + header.length <= Self.maximumBlock else { throw .headerBlockTooLarge }
    }

    /// Charges a frame that transfers nothing. What regular servers send with a response is returned with it.
    /// - Parameter bytes: Begins with the frame.
    private mutating func charge(
        _ header: FrameHeader, _ bytes: borrowing ByteBuffer, now: UInt64
    ) throws(Problem) {
        switch header.type {
        case FrameType.data where header.length > 0:
            // One with padding may have no content.
            if !header.has(FrameFlag.padded) { budget.transferred() }
        case FrameType.data where !header.has(FrameFlag.endStream):
            budget.charge(.emptyFrame, at: now)
        case FrameType.data:
            break
        case FrameType.headers where header.has(FrameFlag.endStream):
            budget.transferred()
        case FrameType.settings where header.length > 0:
            // Each setting may concern all streams.
            budget.charge(header.length > Self.ordinarySettings ? .provokedReset : .settings, at: now)
        case FrameType.windowUpdate:
            let increment = bytes.getInteger(at: bytes.readerIndex + FrameHeader.size, as: UInt32.self) ?? 0
            guard increment >= Self.ordinaryIncrement, Int(increment) <= unacknowledged else { fallthrough }
            unacknowledged -= Int(increment)
        default:
            budget.charge(.smallFrame, at: now)
        }
        guard !budget.isExceeded else { throw .tooManyFrames }
    }

    /// Maximum size of an ordinary SETTINGS payload, in bytes: 32 settings.
    private static let ordinarySettings = 192
    /// Minimum of a window update that is not charged, in bytes.
    private static let ordinaryIncrement = 256
}

extension FrameHeader {
    /// Whether a CONTINUATION frame has to follow.
    fileprivate var leavesBlockOpen: Bool {
        switch type {
        case FrameType.headers, FrameType.pushPromise, FrameType.continuation: !has(FrameFlag.endHeaders)
        default: false
        }
    }
}
