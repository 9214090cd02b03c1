import CloakroomWire
import NIOCore
import NIOHPACK
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("Comparison with other implementations of HPACK")
struct HPACKDifferentialTests {
    private static let limits = HeadLimits(head: 65_535, fields: 10_000, target: 65_535)

    private static func lines(_ table: [HPACKReference.Field]) -> [String] {
        table.map { String(decoding: $0.line, as: UTF8.self) }
    }

    @Test("Requests of another encoder, with changes of the table's size, over long connections", arguments: 1...4)
    func requests(seed: UInt64) throws {
        var fields = RandomFields(seed: seed)
        var encoder = NIOHPACK.HPACKEncoder(allocator: ByteBufferAllocator(), useHuffmanEncoding: seed % 2 == 0)
        let decoder = TestDecoder()
        let small = TestDecoder()
        var reference = HPACKReference.standard()
        var (requests, others) = (0, 0)
        for _ in 0..<200 {
            if fields.chance(5) { try encoder.setDynamicTableSize([0, 40, 300, 4_096][fields.int(0..<4)]) }
            let sent = fields.request().filter { !$0.name.isEmpty }
            let block = try Self.encode(sent, with: &encoder, &fields)
            let decoded = try reference.decode(block)
            expect(decoded, equals: sent.map { HPACKReference.Field($0.name, $0.value) })
            var head = RequestHead()
            let model = RequestModel(decoded)
            if case .request(let request) = try decoder.decode(block, limits: Self.limits, into: &head) {
                expect(RequestModel(head, request), equals: model)
                requests += 1
            } else {
                expect(model, equals: nil)
                others += 1
            }
            // The limits change what is kept, and not the table.
            let result = try small.result(block)
            if model == nil { expect(result != .request(RequestBlock())) }
            expect(decoder.tableLines, equals: Self.lines(reference.table))
            expect(small.tableLines, equals: Self.lines(reference.table))
            if fields.chance(10) { decoder.compact() }
        }
        expect(requests > 50 && others > 50)
    }

    private static func encode(
        _ sent: [(name: String, value: String)], with encoder: inout NIOHPACK.HPACKEncoder,
        _ fields: inout RandomFields
    ) throws -> [UInt8] {
        var headers = HPACKHeaders()
        // The other encoder writes empty names wrongly.
        for (name, value) in sent where !name.isEmpty {
            let indexing: [HPACKIndexing] = [.indexable, .indexable, .nonIndexable, .neverIndexed]
            headers.add(name: name, value: value, indexing: indexing[fields.int(0..<4)])
        }
        var block = ByteBuffer()
        try encoder.encode(headers: headers, to: &block)
        return Array(block.readableBytesView)
    }

    @Test("Responses are decoded by another decoder, with changes of the table's size", arguments: 1...4)
    func responses(seed: UInt64) throws {
        var fields = RandomFields(seed: seed)
        let cache = ResponseLineCache()
        var connections = (0..<4).map { _ in TestEncoder(cache: cache) }
        for step in 0..<600 {
            let index = fields.int(0..<connections.count)
            let connection = connections[index]
            if fields.chance(4) { connection.setTableLimit([0, 40, 300, 2_000, 4_096, 65_536][fields.int(0..<6)]) }
            if fields.chance(4) { connection.compact() }
            var lines = (0..<fields.int(0..<15)).map { _ in fields.field() }
            lines.removeAll { $0.name.contains { " :".contains($0) } || $0.name.isEmpty || $0.name == "x-invalid" }
            let status = fields.chance(80) ? 200 : fields.int(100..<1_000)
            let text = lines.map { "\($0.name.uppercased()): \($0.value)\r\n" }.joined()
            let expected = [":status=\(status)"] + lines.map { "\($0.name.lowercased())=\($0.value)" }
            if step % 3 == 0 {
                try expect(connection.send(status: status, lines: text), equals: expected)
            } else {
                try expect(connection.send("\(status) OK\r\n" + text), equals: expected)
            }
            #expect(connection.tableSize <= connection.tableLimit)
            if fields.chance(1) { connections[index] = TestEncoder(cache: cache) }
        }
    }

    @Test("Noise: accepted blocks have the same fields, rejected ones are rejected", arguments: 1...4)
    func noise(seed: UInt64) throws {
        var fields = RandomFields(seed: seed)
        var (accepted, rejected) = (0, 0)
        for _ in 0..<120 {
            var encoder = NIOHPACK.HPACKEncoder(allocator: ByteBufferAllocator(), useHuffmanEncoding: seed % 2 == 0)
            var other = NIOHPACK.HPACKDecoder(
                allocator: ByteBufferAllocator(), maxDynamicTableSize: 4_096, maxHeaderListSize: 1 << 20)
            let decoder = TestDecoder()
            var reference = HPACKReference.standard()
            while true {
                var block = try Self.encode(fields.request(), with: &encoder, &fields)
                for _ in 0..<fields.int(0..<3) { Self.mutate(&block, &fields) }
                let decoded = try? reference.decode(block)
                var head = RequestHead()
                guard let result = try? decoder.decode(block, limits: Self.limits, into: &head) else {
                    expect(decoded, equals: nil)
                    rejected += 1
                    break
                }
                accepted += 1
                let valid = try require(decoded)
                expect(decoder.tableLines, equals: Self.lines(reference.table))
                let model = RequestModel(valid)
                if case .request(let request) = result {
                    expect(RequestModel(head, request), equals: model)
                } else {
                    expect(model, equals: nil)
                }
                var buffer = ByteBuffer(bytes: block)
                guard let headers = try? other.decodeHeaders(from: &buffer) else { break }
                // The other decoder replaces bytes that are not UTF-8.
                let texts = valid.map { String(decoding: $0.line, as: UTF8.self) }
                expect(headers.map { "\($0.name): \($0.value)\r\n" }, equals: texts)
            }
        }
        expect(accepted > 100 && rejected > 80)
    }

    private static func mutate(_ block: inout [UInt8], _ fields: inout RandomFields) {
        guard !block.isEmpty else { return }
        let place = fields.int(0..<block.count)
        switch fields.int(0..<5) {
        case 0: block[place] ^= 1 << UInt8(fields.int(0..<8))
        case 1: block[place] = UInt8(fields.int(0..<256))
        case 2: block.insert(UInt8(fields.int(0..<256)), at: place)
        case 3: block.remove(at: place)
        default: block.insert(contentsOf: [0x20, 0x3f, 0xe1, 0x1f][..<fields.int(0..<5)], at: 0)
        }
    }

    @Test("Blocks accepted by another decoder are accepted, unless a documented limit is exceeded")
    func acceptance() throws {
        var fields = RandomFields(seed: 9)
        var accepted = 0
        for _ in 0..<10_000 {
            let block = (0..<fields.int(0..<16)).map { _ in UInt8(fields.int(0..<256)) }
            var other = NIOHPACK.HPACKDecoder(allocator: ByteBufferAllocator())
            var buffer = ByteBuffer(bytes: block)
            guard (try? other.decodeHeaders(from: &buffer)) != nil else { continue }
            // More than two changes of the size are rejected here.
            guard block.prefix(3).filter({ $0 & 0xe0 == 0x20 }).count < 3 else { continue }
            accepted += 1
            #expect(throws: Never.self, "\(block)") { try TestDecoder().result(block, limits: Self.limits) }
        }
        #expect(accepted > 250)
    }

    @Test("A block without references to the table has the same result, whatever was decoded before", arguments: 1...3)
    func independence(seed: UInt64) throws {
        var fields = RandomFields(seed: seed)
        let used = TestDecoder()
        var seen: Set<String> = []
        for _ in 0..<400 {
            let forms = BlockWriter.Form.allCases
            let block = BlockWriter(
                fields.request(), forms[fields.int(0..<3)], huffman: fields.chance(50)
            ).bytes
            var head = RequestHead()
            var fresh = RequestHead()
            let result = try used.decode(block, into: &head)
            let expected = try TestDecoder().decode(block, into: &fresh)
            expect(result, equals: expected)
            expect(head.bytes == fresh.bytes && head.fields == fresh.fields)
            expect(head.method == fresh.method && head.target == fresh.target)
            switch result {
            case .request: seen.insert("request")
            case .malformed: seen.insert("malformed")
            case .tooLarge(let error): seen.insert("\(error)")
            }
            if fields.chance(20) { _ = try used.trailers(block) }
            if fields.chance(10) { used.compact() }
        }
        expect(seen, equals: ["request", "malformed", "headTooLarge", "targetTooLong", "tooManyFields"])
    }
}
