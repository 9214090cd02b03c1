import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

/// Inputs that make decoders expensive: bounded in memory, and linear in the bytes that the client sends.
@Suite("Bounds of decoding")
struct HPACKBoundsTests {
    private let decoder = TestDecoder()

    /// A block after which the decoder is used for an ordinary request.
    private static func expectUsable(_ decoder: TestDecoder) throws {
        try expect(decoder.request(Request.block).target, equals: "/")
    }

    /// The memory of the dynamic table, whatever a client sends: lines twice their limit, and 128 entries.
    private static let maxTableBytes = 2 * 4_096 + 128 * 16

    @Test("A large entry that is indexed thousands of times ends in the limit of the head, with a buffer of its size")
    func bomb() throws {
        var block = BlockWriter()
        block.append(Request.block)
        block.literal("x", String(repeating: "a", count: 4_000), .inserted)
        var head = RequestHead()
        let limits = HeadLimits()
        try expect(decoder.decode(block.bytes, limits: limits, into: &head), equals: .request(RequestBlock()))
        // 60,000 bytes that mean 240 MB.
        let bomb = Request.block + [UInt8](repeating: 0xbe, count: 60_000)
        try expect(decoder.decode(bomb, limits: limits, into: &head), equals: .tooLarge(.headTooLarge))
        #expect(head.bytes.capacity <= 32_768)
        #expect(head.fields.capacity <= 256)
        #expect(decoder.allocatedBytes <= Self.maxTableBytes)
        try expect(decoder.trailers([UInt8](repeating: 0xbe, count: 60_000)), equals: .malformed)
        try Self.expectUsable(decoder)
    }

    @Test("100,000 cookie fields are joined up to the limit of the head; the index does not grow with them")
    func crumbs() throws {
        for isIndexed in [false, true] {
            let decoder = TestDecoder()
            _ = try decoder.request(Request.block + BlockWriter([("cookie", "a")], .inserted).bytes)
            let crumb: [UInt8] = isIndexed ? [0xbe] : BlockWriter([("cookie", "a")]).bytes
            let fitting = Request.block + Array(repeatElement(crumb, count: 20_000).joined())
            var head = RequestHead()
            let limits = HeadLimits(head: 65_535)
            try expect(decoder.decode(fitting, limits: limits, into: &head), equals: .request(RequestBlock()))
            expect(head.fields.count, equals: 2)
            expect(head.fields.last?.valueRange.count, equals: 20_000 * 3 - 2)
            let block = Request.block + Array(repeatElement(crumb, count: 100_000).joined())
            try expect(decoder.decode(block, limits: limits, into: &head), equals: .tooLarge(.headTooLarge))
            #expect(head.bytes.capacity <= 65_536)
            #expect(head.fields.capacity <= 64)
            try Self.expectUsable(decoder)
        }
    }

    @Test("Empty cookie fields, which cost two bytes each, are bounded as well")
    func emptyCrumbs() throws {
        // Index 32 is `cookie` with an empty value.
        let block = Request.block + [UInt8](repeating: 0xa0, count: 100_000)
        try expect(decoder.result(block, limits: HeadLimits(head: 65_535)), equals: .tooLarge(.headTooLarge))
        try Self.expectUsable(decoder)
    }

    @Test("Table size updates are bounded, and a table that is emptied again and again keeps its memory")
    func tableSizes() throws {
        var block = BlockWriter()
        block.tableSize(0)
        block.tableSize(4_096)
        block.append(Request.block)
        for number in 0..<200 { block.literal("x-\(number)", String(repeating: "a", count: 50), .inserted) }
        for _ in 0..<50 {
            try expect(decoder.result(block.bytes), equals: .tooLarge(.tooManyFields))
            #expect(decoder.allocatedBytes <= Self.maxTableBytes)
        }
        var updates = BlockWriter()
        for _ in 0..<100_000 { updates.tableSize(0) }
        #expect(throws: HPACKError.compression) { try decoder.result(updates.bytes) }
    }

    @Test("Entries of one byte and entries of the whole table: memory is bounded, in all orders")
    func entrySizes() throws {
        var random = SeededGenerator(seed: 5)
        for _ in 0..<200 {
            var block = BlockWriter()
            block.append(Request.block)
            for _ in 0..<Int.random(in: 1...30, using: &random) {
                let length = [0, 1, 30, 2_000, 4_063, 4_064, 10_000].randomElement(using: &random) ?? 0
                block.literal("x", String(repeating: "a", count: length), .inserted)
            }
            _ = try decoder.result(block.bytes)
            #expect(decoder.tableSize <= 4_096)
            #expect(decoder.allocatedBytes <= Self.maxTableBytes)
        }
        try Self.expectUsable(decoder)
    }

    @Test("A string that can neither be kept nor inserted is not decoded to memory, but its code is checked")
    func hugeStrings() throws {
        let value = String(repeating: "0", count: 1_000_000)
        for form in BlockWriter.Form.allCases {
            for huffman in [false, true] {
                var block = BlockWriter()
                block.append(Request.block)
                block.literal("x", value, form, huffman: huffman)
                block.literal(nameIndex: 19, value, form, huffman: huffman)
                var head = RequestHead()
                try expect(decoder.decode(block.bytes, into: &head), equals: .tooLarge(.headTooLarge))
                #expect(head.bytes.capacity <= 1_024)
                expect(empty: decoder.tableLines)
            }
        }
        var invalid = BlockWriter()
        invalid.append(Request.block)
        invalid.integer(0, prefix: 0x0f, flags: 0)
        invalid.string([0x78], huffman: false)
        invalid.integer(100_000, prefix: 0x7f, flags: 0x80)
        invalid.append([UInt8](repeating: 0xff, count: 100_000))
        #expect(throws: HPACKError.compression) { try decoder.result(invalid.bytes) }
    }

    @Test("An entry that is malformed makes each request malformed that uses it, and no other one")
    func malformedEntry() throws {
        let bad = [("connection", "close"), ("X", "y"), ("a", " b"), ("te", "gzip"), (":status", "200"), ("a", "\n")]
        for (name, value) in bad {
            let decoder = TestDecoder()
            var block = BlockWriter()
            block.append(Request.block)
            block.literal(name, value, .inserted)
            try expect(decoder.result(block.bytes), equals: .malformed)
            for _ in 0..<3 {
                try expect(decoder.result(Request.block + [0xbe]), equals: .malformed)
                try expect(decoder.trailers([0xbe]), equals: .malformed)
                try Self.expectUsable(decoder)
            }
            // Its name with another value has a verdict of its own.
            var named = BlockWriter()
            named.append(Request.block)
            named.literal(nameIndex: 62, "trailers")
            let isValid = name == "te" || name == "a"
            expect(try decoder.result(named.bytes) == .request(RequestBlock()), equals: isValid)
        }
    }

    @Test("A valid entry is malformed in the wrong place, and its verdict remains valid")
    func misplacedEntry() throws {
        var block = BlockWriter()
        block.literal(":method", "PUT", .inserted)
        block.append(Array(Request.block.dropFirst()))
        try expect(decoder.request(block.bytes).method, equals: "PUT")
        try expect(decoder.result(Request.block + [0xbe]), equals: .malformed)
        try expect(decoder.trailers([0xbe]), equals: .malformed)
        try expect(decoder.request([0xbe] + Request.block.dropFirst()).method, equals: "PUT")
    }

    @Test("Lines of requests that are dropped are in the table, and nothing of them is in later requests")
    func dropped() throws {
        let long = String(repeating: "a", count: 1_000)
        let secret = Request.fields + [("x-secret", "1"), ("x-large", long), ("y-secret", "2")]
        try expect(decoder.result(BlockWriter(secret, .inserted).bytes), equals: .tooLarge(.headTooLarge))
        expect(decoder.tableLines.first == "y-secret: 2\r\n" && decoder.tableLines.count == 7)
        let request = try decoder.request(Request.block + BlockWriter([("z", "3")]).bytes)
        expect(request.text, equals: ":method: GET\r\n:scheme: https\r\n:path: /\r\n:authority: a.test\r\nz: 3\r\n\r\n")
        try expect(decoder.request(Request.block + [0xbe]).fields.last, equals: "y-secret=2")
    }

    @Test("Storage is not allocated again for the blocks of a connection in use")
    func steadyState() throws {
        var head = RequestHead()
        let fields = Request.fields + (0..<12).map { ("x-\($0)", String(repeating: "v", count: 20)) }
        _ = try decoder.decode(BlockWriter(fields, .inserted).bytes, limits: HeadLimits(), into: &head)
        var block = BlockWriter()
        for index in fields.indices { block.indexed(61 + fields.count - index) }
        let (storage, capacity) = (head.bytes.storageCapacity, head.fields.capacity)
        let address = head.bytes.withUnsafeReadableBytes { $0.baseAddress }
        let allocated = decoder.allocatedBytes
        for _ in 0..<100 {
            try expect(
                decoder.decode(block.bytes, limits: HeadLimits(), into: &head), equals: .request(RequestBlock()))
        }
        expect(head.bytes.storageCapacity == storage && head.fields.capacity == capacity)
        expect(head.bytes.withUnsafeReadableBytes { $0.baseAddress }, equals: address)
        expect(decoder.allocatedBytes, equals: allocated)
    }

    @Test("An idle connection with the table of a browser takes less than 4 KiB for both directions")
    func idle() throws {
        let encoder = TestEncoder()
        let fields = Request.fields + (0..<12).map { ("x-header-\($0)", String(repeating: "v", count: 40)) }
        _ = try decoder.request(BlockWriter(fields, .inserted).bytes, limits: HeadLimits())
        for _ in 0..<4 {
            _ = try encoder.send(
                status: 200, lines: (0..<10).map { "x-header-\($0): \(String(repeating: "v", count: 20))\r\n" }.joined()
            )
        }
        expect(encoder.tableCount, equals: 10)
        decoder.compact()
        encoder.compact()
        #expect(decoder.allocatedBytes + encoder.allocatedBytes < 4_096)
    }
}
