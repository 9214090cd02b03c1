import CloakroomWire
import NIOCore
import TestSupport
import Testing

@Suite("A head's parser")
struct HeadParserTests {
    @Test("returns the head's bytes, from the first of the request line to the last of the empty line")
    func bytes() throws {
        var buffer = ByteBuffer(string: "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nrest")
        var parser = HeadParser(limits: HeadLimits())
        var head = RequestHead()
        try expect(parser.parse(&buffer, into: &head))
        expect(String(buffer: head.bytes), equals: "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        expect(String(buffer: buffer), equals: "rest")
        expect(head.fields.map(\.name), equals: [.host])
        expect(head.fields.allSatisfy { !$0.isStripped })
    }

    @Test("reports whether part of a head has been parsed")
    func progress() throws {
        var parser = HeadParser(limits: HeadLimits())
        var head = RequestHead()
        var buffer = ByteBuffer(string: "GET / HTTP/1.1\r\n")
        expect(!parser.isInHead)
        try expect(!parser.parse(&buffer, into: &head))
        expect(parser.isInHead)
        buffer.writeString("\r\n")
        try expect(parser.parse(&buffer, into: &head))
        expect(!parser.isInHead)
    }

    @Test("resets a reused head")
    func reuse() throws {
        var parser = HeadParser(limits: HeadLimits())
        var head = RequestHead()
        var buffer = ByteBuffer(string: "GET /long HTTP/1.0\r\nA: b\r\nC: d\r\n\r\nPUT / HTTP/1.1\r\nE: f\r\n\r\n")
        try expect(parser.parse(&buffer, into: &head))
        head.reset()
        expect(empty: head.fields)
        try expect(parser.parse(&buffer, into: &head))
        expect(head.fields.count, equals: 1)
        expect(head.minorVersion, equals: 1)
        expect(head.target, equals: ByteRange(start: 4, count: 1))
    }

    @Test("RFC 9110 §5.5: finds an invalid byte at any position of a value")
    func fieldTextAtAnyPlace() {
        var wrong: [String] = []
        for byte in UInt8.min...UInt8.max where byte != UInt8(ascii: "\r") {
            let isAllowed = (byte >= 0x20 && byte != 0x7f) || byte == UInt8(ascii: "\t")
            for place in 1..<26 {
                var value = [UInt8](repeating: UInt8(ascii: "a"), count: 27)
                value[place] = byte
                let bytes = Array("GET / HTTP/1.1\r\nA: ".utf8) + value + Array("\r\n\r\n".utf8)
                let error = MessageReader.read(bytes, .requests).error
                let expected: WireError? = isAllowed ? nil : byte == UInt8(ascii: "\n") ? .lineEnd : .fieldValue
                if error != expected { wrong.append("byte \(byte) at \(place)") }
            }
        }
        expect(empty: wrong)
    }
}
