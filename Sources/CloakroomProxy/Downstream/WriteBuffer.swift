import CloakroomWire
import DequeModule
import NIOCore

/// Small writes of one connection, coalesced into one buffer until they are sent.
///
/// A value without I/O. Sending may call back into the owner, so the owner takes the data before it passes it to the
/// channel, and returns the storage afterwards.
struct WriteBuffer {
    /// Maximum number of bytes that are coalesced: the size of a TLS record (RFC 8446 §5.1). Larger parts are written
    /// separately, without a copy.
    static let limit = 16_384

    /// The data, for encoders, which append to it without regard to the limit.
    var bytes = ByteBuffer()

    var isEmpty: Bool { bytes.readableBytes == 0 }

    /// Whether the given number of bytes can be appended within the limit.
    func hasRoom(for count: Int) -> Bool { bytes.readableBytes + count <= Self.limit }

    mutating func append(_ more: ByteBuffer) {
        bytes.writeImmutableBuffer(more)
    }

    /// Discards the data and keeps the storage, if it has no other owner.
    mutating func clear() { bytes.clear() }

    /// Releases the storage, unless it contains data.
    mutating func releaseStorage() {
        if isEmpty { bytes = ByteBuffer() }
    }

    /// Removes the data, to write it.
    /// - Returns: `nil` if there is none.
    mutating func take() -> ByteBuffer? {
        guard !isEmpty else { return nil }
        var taken = ByteBuffer()
        swap(&taken, &bytes)
        return taken
    }

    /// Reuses the storage of data that was taken and written, unless more has been appended meanwhile, or it was that of a
    /// large page.
    mutating func reuse(_ taken: inout ByteBuffer) {
        guard isEmpty, taken.storageCapacity <= 2 * Self.limit else { return }
        // Data that the channel has not sent keeps its storage. A capacity would be allocated for each such write.
        taken.clear(minimumCapacity: 0)
        swap(&taken, &bytes)
    }
}

extension Deque<ByteBuffer> {
    /// Appends a part of a body that waits to be sent. Parts that follow each other are combined up to the size of a TLS
    /// record: each is usually a slice that keeps the whole buffer of its read, which may be a thousand times as large.
    mutating func appendPart(_ bytes: ByteBuffer) {
        // The bytes of the last part that were sent count too: their storage is not used again.
        if let end = last?.writerIndex, end + bytes.readableBytes <= WriteBuffer.limit {
            self[index(before: endIndex)].writeImmutableBuffer(bytes)
        } else {
            append(bytes)
        }
    }

    /// The last part has to wait: it keeps only storage that its bytes need.
    mutating func compactLast() {
        if !isEmpty { self[index(before: endIndex)].releaseReadStorage() }
    }
}

extension ChannelHandlerContext {
    /// Calls back when everything written so far is sent or has failed.
    ///
    /// A channel flushes pending data before it closes its output only while its input is open. With both sides closed
    /// it discards unsent data.
    func afterFlush(_ next: @escaping (ChannelHandlerContext) -> Void) {
        let sent = eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolated().whenComplete { [self] _ in next(self) }
        writeAndFlush(NIOAny(ByteBuffer()), promise: sent)
    }
}
