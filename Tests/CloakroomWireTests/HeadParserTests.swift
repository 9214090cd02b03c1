import CloakroomWire
import NIOCore
import Testing

@Suite("A head's parser")
struct HeadParserTests {
    @Test("gives the head's bytes, from the first of the request line to the last of the empty line")
    func bytes() throws {
        var buffer = ByteBuffer(string: "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nrest")
        var parser = HeadParser(limits: HeadLimits())
        var head = RequestHead()
        #expect(try parser.parse(&buffer, into: &head))
        #expect(String(buffer: head.bytes) == "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(String(buffer: buffer) == "rest")
        #expect(head.fields.map(\.name) == [.host])
        #expect(head.fields.allSatisfy { !$0.isDropped })
    }

    @Test("tells whether it stands within a head")
    func progress() throws {
        var parser = HeadParser(limits: HeadLimits())
        var head = RequestHead()
        var buffer = ByteBuffer(string: "GET / HTTP/1.1\r\n")
        #expect(!parser.isInHead)
        #expect(try !parser.parse(&buffer, into: &head))
        #expect(parser.isInHead)
        buffer.writeString("\r\n")
        #expect(try parser.parse(&buffer, into: &head))
        #expect(!parser.isInHead)
    }

    @Test("forgets the last message when a head is used again")
    func reuse() throws {
        var parser = HeadParser(limits: HeadLimits())
        var head = RequestHead()
        var buffer = ByteBuffer(string: "GET /long HTTP/1.0\r\nA: b\r\nC: d\r\n\r\nPUT / HTTP/1.1\r\nE: f\r\n\r\n")
        #expect(try parser.parse(&buffer, into: &head))
        head.reset()
        #expect(head.fields.isEmpty)
        #expect(try parser.parse(&buffer, into: &head))
        #expect(head.fields.count == 1)
        #expect(head.minorVersion == 1)
        #expect(head.target == ByteRange(start: 4, count: 1))
    }
}
