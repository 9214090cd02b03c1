import CloakroomWire
import NIOCore
import NIOHPACK
import Testing

@testable import CloakroomHTTP2

@Suite("Fields of responses, as a client decodes them")
struct ResponseFieldsTests {
    /// Encodes blocks with one encoder and decodes them with another implementation.
    private final class Codec {
        var encoder = CloakroomHTTP2.HPACKEncoder()
        private var decoder = NIOHPACK.HPACKDecoder(allocator: ByteBufferAllocator())
        let cache = ResponseLineCache()

        func block(status: Int?, lines: String) -> ByteBuffer {
            var output = ByteBuffer()
            encoder.begin(status: status, into: &output)
            encoder.add(lines: Array(lines.utf8).span, cache: cache, into: &output)
            return output
        }

        func block(_ head: ResponseHead, except: StaticString? = nil) -> ByteBuffer {
            var output = ByteBuffer()
            encoder.begin(status: head.status, into: &output)
            encoder.add(head, except: except, cache: cache, into: &output)
            return output
        }

        func decode(_ block: ByteBuffer) throws -> HPACKHeaders {
            var block = block
            return try decoder.decodeHeaders(from: &block)
        }

        func lines(_ block: ByteBuffer) throws -> [String] {
            try decode(block).map { "\($0.name)=\($0.value)" }
        }
    }

    private static func parse(_ text: String) throws -> ResponseHead {
        var parser = HeadParser(limits: HeadLimits(head: 4_096, fields: 100, target: 100))
        var head = ResponseHead()
        var bytes = ByteBuffer(string: text)
        _ = try parser.parse(&bytes, into: &head)
        return head
    }

    @Test("RFC 9113 §8.2, §8.3.2: the status first, names in lower case, no fields that policy drops")
    func head() throws {
        let codec = Codec()
        var head = try Self.parse(
            "HTTP/1.1 201 Made\r\nContent-Type: a/b\r\nX-Upper-Case: Yes\r\nX-Gone: 1\r\nSet-Cookie: A=B\r\n\r\n")
        head.fields[2].isStripped = true
        for _ in 0..<4 {
            #expect(
                try codec.lines(codec.block(head))
                    == [":status=201", "content-type=a/b", "x-upper-case=Yes", "set-cookie=A=B"])
            #expect(
                try codec.lines(codec.block(head, except: "x-upper-case"))
                    == [":status=201", "content-type=a/b", "set-cookie=A=B"])
        }
    }

    @Test("RFC 7541 §7.1.3: a Set-Cookie field is never indexed, from an upstream and of our own")
    func cookies() throws {
        let codec = Codec()
        let head = try Self.parse("HTTP/1.1 200 OK\r\nSet-Cookie: A=B\r\nX: y\r\n\r\n")
        for _ in 0..<3 {
            for block in [codec.block(head), codec.block(status: 200, lines: "Set-Cookie: A=B\r\nY: z\r\n")] {
                let never = try codec.decode(block).filter {
                    if case .neverIndexed = $0.indexable { true } else { false }
                }
                #expect(never.map(\.value) == ["A=B"])
            }
        }
    }

    @Test(
        "Every status has three digits",
        arguments: [100, 103, 200, 204, 206, 299, 304, 400, 401, 404, 418, 500, 599, 999])
    func status(_ status: Int) throws {
        let codec = Codec()
        for _ in 0..<3 { #expect(try codec.lines(codec.block(status: status, lines: "")) == [":status=\(status)"]) }
    }

    @Test("Complete field lines become fields, without the blanks around the value")
    func fieldLines() throws {
        let codec = Codec()
        for _ in 0..<3 {
            #expect(
                try codec.lines(codec.block(status: nil, lines: "A-B: c d\r\nE:f\r\nG: \r\nH:  i\t\r\n"))
                    == ["a-b=c d", "e=f", "g=", "h=i"])
            #expect(try codec.lines(codec.block(status: nil, lines: "")) == [])
        }
    }

    @Test("One field by its name and value")
    func field() throws {
        let codec = Codec()
        for number in 0..<3 {
            var output = ByteBuffer()
            codec.encoder.begin(status: 200, into: &output)
            codec.encoder.add(name: "content-length", value: Array("\(number)".utf8).span, into: &output)
            codec.encoder.add(name: "x-empty", value: [UInt8]().span, into: &output)
            #expect(try codec.lines(output) == [":status=200", "content-length=\(number)", "x-empty="])
        }
    }
}
