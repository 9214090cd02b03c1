import CloakroomWire
import NIOCore
import TestSupport
import Testing

@Suite("Writing a message head")
struct HeadWriterTests {
    private static let source = Array("0123456789".utf8)

    private func write(reserving size: Int, into buffer: inout ByteBuffer) {
        buffer.writeHead(reserving: size) { append(to: &$0) }
    }

    private func append(to writer: inout HeadWriter) {
        writer.append("GET ")
        writer.append(Self.source.span.bytes, ByteRange(start: 2, count: 3))
        writer.append([UInt8(ascii: "?")])
        writer.append(Self.source.span.bytes.extracting(7..<9))
        writer.append(text: " é ")
        writer.appendHex(0x0123_4567_89ab_cdef)
        writer.append("\r\n")
    }

    @Test("Parts are appended in order, whatever was reserved", arguments: [0, 1, 5, 33, 34, 35, 1_000])
    func parts(size: Int) {
        var buffer = ByteBuffer()
        write(reserving: size, into: &buffer)
        expect(String(buffer: buffer), equals: "GET 234?78 é 0123456789abcdef\r\n")
        var calls = 0
        let bytes = [UInt8](reserving: size, from: &calls) { writer, calls in
            calls += 1
            append(to: &writer)
        }
        expect(String(decoding: bytes, as: UTF8.self), equals: "GET 234?78 é 0123456789abcdef\r\n")
        expect(calls, equals: (size < bytes.count ? 2 : 1))
    }

    @Test("A head is written after the content of the buffer, which stays", arguments: [1, 1_000])
    func after(size: Int) {
        var buffer = ByteBuffer(string: "before ")
        let other = buffer
        write(reserving: size, into: &buffer)
        expect(String(buffer: buffer), equals: "before GET 234?78 é 0123456789abcdef\r\n")
        expect(String(buffer: other), equals: "before ")
    }

    @Test("Numbers are written in decimal", arguments: [0, 9, 10, 200, 65_536, 1_000_000_007, Int.max])
    func decimal(value: Int) {
        var buffer = ByteBuffer()
        buffer.writeHead(reserving: 1) { writer in
            writer.append("<")
            writer.append(decimal: value)
            writer.append(">")
        }
        expect(String(buffer: buffer), equals: "<\(value)>")
    }

    @Test("Nothing is written for no parts")
    func nothing() {
        var buffer = ByteBuffer()
        buffer.writeHead(reserving: 0) { _ in }
        buffer.writeHead(reserving: 0) { writer in
            writer.append([])
            writer.append(Self.source.span.bytes.extracting(3..<3))
        }
        expect(buffer.readableBytes, equals: 0)
        var nothing: Void = ()
        let bytes = [UInt8](reserving: 0, from: &nothing) { _, _ in }
        expect(empty: bytes)
    }

    @Test(
        "The lines of fields that are not stripped are copied",
        arguments: [
            ([], "A: 1\r\nBb: 2\r\nC:3\r\n"), ([0], "Bb: 2\r\nC:3\r\n"), ([1], "A: 1\r\nC:3\r\n"),
            ([2], "A: 1\r\nBb: 2\r\n"), ([0, 1], "C:3\r\n"), ([0, 2], "Bb: 2\r\n"), ([1, 2], "A: 1\r\n"),
            ([0, 1, 2], ""),
        ])
    func fields(stripped: [Int], expected: String) throws {
        var input = ByteBuffer(string: "GET / HTTP/1.1\r\nA: 1\r\nBb: 2\r\nC:3\r\n\r\n")
        var parser = HeadParser(limits: HeadLimits())
        var head = RequestHead()
        try expect(parser.parse(&input, into: &head))
        for index in stripped { head.fields[index].isStripped = true }
        var buffer = ByteBuffer()
        buffer.writeHead(reserving: 64) { writer in
            writer.append(
                fields: head.fields, of: head.bytes.readableBytesSpan, end: head.bytes.readableBytes - 2)
        }
        expect(String(buffer: buffer), equals: expected)
    }
}
