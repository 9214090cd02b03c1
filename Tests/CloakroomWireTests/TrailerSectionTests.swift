import CloakroomWire
import NIOCore
import TestSupport
import Testing

@Suite("A trailer section created from lines")
struct TrailerSectionTests {
    @Test("contains the positions of its fields")
    func fields() throws {
        let section = try TrailerSection(lines: ByteBuffer(string: "Expires: a\r\ngrpc-status:0 \r\n"))
        let bytes = section.bytes
        let texts = section.fields.map { field in
            [field.nameRange, field.valueRange].map { bytes.getString(at: $0.start, length: $0.count) ?? "?" }
        }
        expect(texts, equals: [["Expires", "a"], ["grpc-status", "0"]])
    }

    @Test(
        "RFC 9112 §5: is rejected if its lines are malformed",
        arguments: [
            ("", .trailer), ("\r\n", .trailer), ("A: b", .trailer), ("A: b\n", .lineEnd), ("A: b\r", .lineEnd),
            ("A: b\r\n\r\n", .trailer), ("A: b\r\n\r\nC: d\r\n", .trailer), ("A : b\r\n", .trailer),
            ("A: b\r\n c\r\n", .trailer), (":path: /\r\n", .trailer), ("A: \u{0}\r\n", .trailer), ("A\r\n", .trailer),
            ("A: b\rc\r\n", .lineEnd),
        ] as [(String, WireError)])
    func rejected(lines: String, expected: WireError) {
        #expect(throws: expected) { try TrailerSection(lines: ByteBuffer(string: lines)) }
    }
}
