import NIOCore
import Testing

@testable import CloakroomProxy

@Suite("A buffer of small writes")
struct WriteBufferTests {
    @Test("Coalesces up to 16,384 bytes")
    func limit() {
        var buffer = WriteBuffer()
        #expect(buffer.hasRoom(for: 16_384))
        #expect(!buffer.hasRoom(for: 16_385))
        buffer.append(ByteBuffer(repeating: 1, count: 16_000))
        #expect(buffer.hasRoom(for: 384))
        #expect(!buffer.hasRoom(for: 385))
    }

    @Test("Returns its data once, in the order of the writes")
    func take() {
        var buffer = WriteBuffer()
        buffer.append(ByteBuffer(string: "a"))
        buffer.bytes.writeString("b")
        buffer.append(ByteBuffer(string: "c"))
        #expect(buffer.take() == ByteBuffer(string: "abc"))
        #expect(buffer.isEmpty)
        #expect(buffer.take() == nil)
    }

    @Test("Reuses the storage of data that has been sent")
    func reuse() throws {
        var buffer = WriteBuffer()
        buffer.append(ByteBuffer(repeating: 1, count: 5_000))
        let data = buffer.take()
        var taken = try #require(data)
        #expect(buffer.bytes.capacity == 0)
        buffer.reuse(&taken)
        #expect(buffer.isEmpty)
        #expect(buffer.bytes.capacity >= 5_000)
    }

    @Test("Data appended while the taken data is sent is kept, and follows it")
    func appendedMeanwhile() throws {
        var buffer = WriteBuffer()
        buffer.append(ByteBuffer(string: "first"))
        let data = buffer.take()
        var taken = try #require(data)
        buffer.append(ByteBuffer(string: "second"))
        buffer.reuse(&taken)
        #expect(taken == ByteBuffer(string: "first"))
        #expect(buffer.take() == ByteBuffer(string: "second"))
    }

    @Test("Data that was taken is not modified by later writes")
    func ownership() throws {
        var buffer = WriteBuffer()
        buffer.append(ByteBuffer(string: "first"))
        let data = buffer.take()
        var taken = try #require(data)
        let sent = taken
        buffer.reuse(&taken)
        buffer.append(ByteBuffer(string: "second"))
        #expect(sent == ByteBuffer(string: "first"))
        buffer.clear()
        #expect(buffer.take() == nil)
    }
}
