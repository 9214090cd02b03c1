import CloakroomWire
import NIOCore
import TestSupport
import Testing

@Suite("The storage of a buffer that is read")
struct ReadStorageTests {
    @Test("is released when everything has been read")
    func empty() {
        var buffer = ByteBuffer(repeating: 0x61, count: 16_384)
        buffer.moveReaderIndex(forwardBy: 16_384)
        buffer.releaseReadStorage()
        expect(buffer.storageCapacity, equals: 0)
    }

    @Test("becomes small when a small rest is left")
    func smallRest() {
        var buffer = ByteBuffer(repeating: 0x61, count: 16_384)
        buffer.moveReaderIndex(forwardBy: 16_284)
        buffer.releaseReadStorage()
        #expect(buffer.storageCapacity <= 4_096)
        expect(buffer, equals: ByteBuffer(repeating: 0x61, count: 100))
    }
}
