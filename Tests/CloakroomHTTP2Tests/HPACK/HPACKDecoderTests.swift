import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("Decoding of header blocks")
struct HPACKDecoderTests {
    private static let limits = HeadLimits()
    private let decoder = TestDecoder()

    @Test(
        "RFC 7541: blocks that are not valid end the connection",
        arguments: [
            ("index 0", "80"), ("an index beyond the tables", "be"), ("a name beyond the tables", "7e 01 61"),
            ("an integer without end", "ff"), ("an integer of five bytes", "ff 80 80 80 80 01"),
            ("an integer that overflows", "ff ff ff ff ff ff ff ff ff ff 7f"),
            ("a name beyond the block", "00 03 61 61"), ("a value beyond the block", "00 01 61 02 61"),
            ("no value", "00 01 61"), ("no name", "40"), ("invalid Huffman code", "00 81 ff 01 61"),
            ("a Huffman code without end", "00 01 61 84 ff ff ff ff"),
            ("a table size above the limit", "3f e2 1f 82"), ("a table size after a field", "82 20"),
            ("three table sizes", "20 20 20"), ("a length of 2^28", "00 7f 81 ff ff 7f 61"),
        ])
    func invalid(what: String, block: String) {
        #expect(throws: HPACKError.compression, "\(what)") { try decoder.result(hex(block)) }
        let other = TestDecoder()
        #expect(throws: HPACKError.compression, "\(what)") { _ = try other.trailers(hex(block)) }
    }

    @Test("RFC 7541 §4.2: the table size can be changed twice at the start of a block, up to the announced limit")
    func tableSize() throws {
        let decoder = TestDecoder(tableLimit: 100)
        var block = BlockWriter()
        block.tableSize(0)
        block.tableSize(100)
        block.append(Request.block)
        _ = try decoder.request(block.bytes)
        expect(empty: decoder.tableLines)
        var tooLarge = BlockWriter()
        tooLarge.tableSize(101)
        #expect(throws: HPACKError.compression) { try decoder.result(tooLarge.bytes) }
    }

    @Test("RFC 7541 §4.4: a name can refer to the entry that the insertion evicts")
    func evictedName() throws {
        let decoder = TestDecoder(tableLimit: 64)
        _ = try decoder.request(Request.block + BlockWriter([("x-name", "0123456789")], .inserted).bytes)
        var block = BlockWriter()
        block.append(Request.block)
        block.literal(nameIndex: 62, "abcdefghij", .inserted)
        try expect(decoder.request(block.bytes).fields.last, equals: "x-name=abcdefghij")
        expect(decoder.tableLines, equals: ["x-name: abcdefghij\r\n"])
    }

    @Test("A head that is larger than the buffer at first is complete")
    func growth() throws {
        let values = (0..<60).map { String(repeating: "\($0 % 10)", count: 200) }
        let block = Request.block + BlockWriter(values.map { ("x", $0) }, .inserted).bytes
        try expect(
            decoder.request(block, limits: Self.limits).fields.dropFirst(), equals: values.map { "x=" + $0 }[...])
        expect(decoder.tableLines.count, equals: 17)
    }

    @Test("The storage of a head is used again")
    func reuse() throws {
        var head = RequestHead()
        _ = try decoder.decode(Request.block, limits: Self.limits, into: &head)
        let address = head.bytes.withUnsafeReadableBytes { $0.baseAddress }
        _ = try decoder.decode(Request.block, limits: Self.limits, into: &head)
        expect(head.bytes.withUnsafeReadableBytes { $0.baseAddress }, equals: address)
        // Another owner of the storage keeps its contents.
        let copy = head.bytes
        let other = BlockWriter([(":method", "PUT")]).bytes + Request.block.dropFirst()
        _ = try decoder.decode(other, limits: Self.limits, into: &head)
        expect(String(buffer: copy).hasPrefix(":method: GET\r\n"))
        expect(String(buffer: head.bytes).hasPrefix(":method: PUT\r\n"))
    }
}

/// A minimal request.
enum Request {
    /// Four bytes of indices, and an authority that is not inserted.
    static let block: [UInt8] = [0x82, 0x87, 0x84, 0x01, 0x06] + Array("a.test".utf8)
    static let fields = [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a.test")]
}
