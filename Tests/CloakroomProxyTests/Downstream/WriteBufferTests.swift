import DequeModule
import NIOCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("A buffer of small writes")
struct WriteBufferTests {
    @Test("Coalesces up to 16,384 bytes")
    func limit() {
        var buffer = WriteBuffer()
        expect(buffer.hasRoom(for: 16_384))
        expect(!buffer.hasRoom(for: 16_385))
        buffer.append(ByteBuffer(repeating: 1, count: 16_000))
        expect(buffer.hasRoom(for: 384))
        expect(!buffer.hasRoom(for: 385))
    }

    @Test("Returns its data once, in the order of the writes")
    func take() {
        var buffer = WriteBuffer()
        buffer.append(ByteBuffer(string: "a"))
        buffer.bytes.writeString("b")
        buffer.append(ByteBuffer(string: "c"))
        expect(buffer.take(), equals: ByteBuffer(string: "abc"))
        expect(buffer.isEmpty)
        expect(buffer.take(), equals: nil)
    }

    @Test("Reuses the storage of data that has been sent")
    func reuse() {
        var buffer = WriteBuffer()
        buffer.append(ByteBuffer(repeating: 1, count: 5_000))
        var taken = ByteBuffer()
        // The only owner of the storage, as after a write that the channel has sent.
        if let data = buffer.take() { taken = data }
        expect(taken.readableBytes == 5_000 && buffer.bytes.capacity == 0)
        buffer.reuse(&taken)
        expect(buffer.isEmpty)
        #expect(buffer.bytes.capacity >= 5_000)
    }

    @Test("Storage of a large page is not kept")
    func largePage() {
        var buffer = WriteBuffer()
        buffer.append(ByteBuffer(repeating: 1, count: 112_000))
        var taken = ByteBuffer()
        if let data = buffer.take() { taken = data }
        buffer.reuse(&taken)
        expect(buffer.isEmpty)
        expect(buffer.bytes.capacity, equals: 0)
    }

    @Test("Data appended while the taken data is sent is kept, and follows it")
    func appendedMeanwhile() throws {
        var buffer = WriteBuffer()
        buffer.append(ByteBuffer(string: "first"))
        let data = buffer.take()
        var taken = try require(data)
        buffer.append(ByteBuffer(string: "second"))
        buffer.reuse(&taken)
        expect(taken, equals: ByteBuffer(string: "first"))
        expect(buffer.take(), equals: ByteBuffer(string: "second"))
    }

    @Test("Data that was taken is not modified by later writes")
    func ownership() throws {
        var buffer = WriteBuffer()
        buffer.append(ByteBuffer(string: "first"))
        let data = buffer.take()
        var taken = try require(data)
        let sent = taken
        buffer.reuse(&taken)
        buffer.append(ByteBuffer(string: "second"))
        expect(sent, equals: ByteBuffer(string: "first"))
        buffer.clear()
        expect(buffer.take(), equals: nil)
    }

    @Test("Data that the channel has not sent is not replaced by empty storage of the same size")
    func unsentData() throws {
        var buffer = WriteBuffer()
        buffer.append(ByteBuffer(repeating: 1, count: 16_000))
        let data = buffer.take()
        var taken = try require(data)
        let unsent = taken
        buffer.reuse(&taken)
        expect(buffer.bytes.storageCapacity, equals: 0)
        expect(unsent.readableBytes, equals: 16_000)
    }

    @Test("Small parts that wait keep little more storage than their bytes, although each is a slice of a large read")
    func waitingParts() throws {
        var parts = Deque<ByteBuffer>()
        for _ in 0..<1_000 {
            let slice = ByteBuffer(repeating: 7, count: 32_768).getSlice(at: 0, length: 50)
            parts.appendPart(try require(slice))
        }
        expect(parts.reduce(0) { $0 + $1.readableBytes }, equals: 50_000)
        expect(parts.allSatisfy { $0.readableBytesView.allSatisfy { $0 == 7 } })
        #expect(parts.reduce(0) { $0 + $1.storageCapacity } <= 4 * 50_000)
        parts.appendPart(ByteBuffer(repeating: 8, count: 16_384))
        expect(parts.last?.readableBytes, equals: 16_384)
    }

    @Test("Parts that are never all sent keep little storage: what was sent of the last one counts as well")
    func partsThatNeverEnd() throws {
        var parts = Deque<ByteBuffer>()
        parts.appendPart(ByteBuffer(repeating: 7, count: 1_999))
        for _ in 0..<10_000 {
            parts.appendPart(ByteBuffer(repeating: 7, count: 2_000))
            var left = 2_000
            while left > 0, var part = parts.popFirst() {
                left -= part.readSlice(length: min(left, part.readableBytes))?.readableBytes ?? 0
                if part.readableBytes > 0 { parts.prepend(part) }
            }
        }
        expect(parts.reduce(0) { $0 + $1.readableBytes }, equals: 1_999)
        #expect(parts.reduce(0) { $0 + $1.storageCapacity } <= 65_536)
    }
}
