import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("Trailer blocks")
struct TrailerBlockTests {
    private static func decode(_ fields: [(String, String)]) throws -> TrailerBlockResult {
        let decoder = TestDecoder()
        return try decoder.trailers(BlockWriter(fields, .inserted).bytes)
    }

    @Test("Fields become a trailer section")
    func fields() throws {
        guard case .trailers(let section?) = try Self.decode([("grpc-status", "0"), ("x", ""), ("cookie", "a")]) else {
            Issue.record("not a section")
            return
        }
        expect(String(buffer: section.bytes), equals: "grpc-status: 0\r\nx: \r\ncookie: a\r\n")
        expect(section.fields.map(\.name), equals: [.other, .other, .cookie])
    }

    @Test("A block without fields is no section")
    func empty() throws {
        try expect(Self.decode([]), equals: .trailers(nil))
    }

    @Test(
        "RFC 9113 §8.1: pseudo-fields, connection-specific fields and invalid lines make it malformed",
        arguments: [
            (":path", "/"), (":status", "200"), ("connection", "close"), ("te", "trailers"), ("upgrade", "a"),
            ("transfer-encoding", "chunked"), ("X", "y"), ("a", "b\r\nc: d"), ("a", " b"), ("", "a"),
            ("a", "b\r\n\r\nGET / HTTP/1.1"), ("a: 1\r\nb", "1"), ("a:b", "1"), ("a", "b\0c"),
        ])
    func malformed(name: String, value: String) throws {
        try expect(Self.decode([("x", "y"), (name, value)]), equals: .malformed)
    }

    @Test("A section that is too large is malformed, and the table is maintained")
    func tooLarge() throws {
        let decoder = TestDecoder()
        let many = (0..<101).map { ("x-\($0)", "") }
        try expect(decoder.trailers(BlockWriter(many, .inserted).bytes), equals: .malformed)
        expect(decoder.tableLines.first, equals: "x-100: \r\n")
        let large = (0..<3).map { ("y-\($0)", String(repeating: "a", count: 3_000)) }
        try expect(decoder.trailers(BlockWriter(large, .inserted).bytes), equals: .malformed)
        expect(decoder.tableLines.first?.hasPrefix("y-2: "), equals: true)
    }
}
