import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Storage of a request that waits")
struct RequestStorageTests {
    /// A slice of a read whose buffer is much larger.
    private static func slice(_ text: String) throws -> ByteBuffer {
        var read = ByteBuffer(string: text)
        read.writeRepeatingByte(0x61, count: 65_536)
        return try require(read.getSlice(at: read.readerIndex, length: text.utf8.count))
    }

    @Test("Rule 77: a head that arrived in a large read keeps storage of its own, and its fields")
    func head() throws {
        var request = InboundRequest()
        var parser = HeadParser(limits: HeadLimits())
        var bytes = try Self.slice("GET /a HTTP/1.1\r\nHost: a\r\nX-A: b\r\n\r\n")
        try expect(parser.parse(&bytes, into: &request.head))
        #expect(request.head.bytes.storageCapacity > 65_536)
        request.begin(.none, upgrade: .none)
        #expect(request.head.bytes.storageCapacity <= 4_096)
        expect(request.value(of: .host), equals: Array("a".utf8))
        expect(request.loggableMethod, equals: "GET")
    }

    @Test("A head of an ordinary read is not copied")
    func ordinaryHead() throws {
        var request = InboundRequest()
        var parser = HeadParser(limits: HeadLimits())
        var bytes = ByteBuffer(string: "GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        bytes.reserveCapacity(2_048)
        let address = bytes.withUnsafeReadableBytes { $0.baseAddress }
        try expect(parser.parse(&bytes, into: &request.head))
        request.begin(.none, upgrade: .none)
        expect(request.head.bytes.withUnsafeReadableBytes { $0.baseAddress }, equals: address)
    }

    @Test("Rule 77: a body that is kept for sending the request again keeps four times its bytes, in all splits")
    func keptBody() throws {
        try StorageProperty.check(PeerStream("abcde"), bound: 16_384) {
            var replay = BodyReplay()
            replay.keepIfSmall(upTo: 4_096)
            return { read in
                replay.append(read)
                return replay.isKept ? replay.body.storageCapacity : nil
            }
        }
        var small = BodyReplay()
        small.keep(.length(2), upTo: 16_384)
        small.append(try Self.slice("ab"))
        #expect(small.body.storageCapacity <= 4_096)
    }

    @Test("Rule 77: a body that waits for the rest is counted with its storage, at most four times its bytes")
    func waitingBody() throws {
        try StorageProperty.check(PeerStream("abcde"), bound: 65_536) {
            var replay = BodyReplay()
            var counted = 0
            return { read in
                replay.append(read)
                counted += replay.hold()
                #expect(counted >= replay.body.storageCapacity)
                #expect(replay.body.storageCapacity <= StorageProperty.ordinaryBound(unread: replay.body.readableBytes))
                return replay.body.readableBytes < 16_384 ? replay.body.storageCapacity : nil
            }
        }
    }
}
