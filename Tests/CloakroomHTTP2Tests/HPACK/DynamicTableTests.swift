import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("The dynamic table")
struct DynamicTableTests {
    private static func line(_ name: String, _ value: String) -> (bytes: [UInt8], line: FieldLine) {
        let line = FieldLine(
            nameCount: UInt16(name.utf8.count), valueCount: UInt16(value.utf8.count), field: .other, role: .plain)
        return (Array("\(name): \(value)\r\n".utf8), line)
    }

    @Test("RFC 7541 §4.4: a line that is larger than the table empties it and is not inserted")
    func tooLarge() {
        var table = DynamicTable(limit: 100)
        let small = Self.line("a", "b")
        let hasSmall = table.insert(small.bytes.span, at: 0, small.line)
        expect(hasSmall)
        let size = table.size
        expect(size, equals: 34)
        let exact = Self.line("a", String(repeating: "b", count: 67))
        let hasExact = table.insert(exact.bytes.span, at: 0, exact.line)
        expect(hasExact)
        let full = (table.count, table.size)
        expect(full == (1, 100))
        let large = Self.line("a", String(repeating: "b", count: 68))
        let hasLarge = table.insert(large.bytes.span, at: 0, large.line)
        expect(!hasLarge)
        let empty = (table.count, table.size)
        expect(empty == (0, 0))
    }

    @Test("Equals a simple model after random insertions, changes of the limit and compactions")
    func model() {
        var random = SeededGenerator(seed: 3)
        for limit in [0, 31, 32, 40, 100, 1_000, 4_096, 16_384] {
            var table = DynamicTable(limit: limit)
            var model: [(text: String, size: Int)] = []
            var current = limit
            func evict() { while model.reduce(0, { $0 + $1.size }) > current { model.removeLast() } }
            for step in 0..<2_000 {
                switch Int.random(in: 0..<100, using: &random) {
                case 0: table.compact()
                case 1:
                    current = Int.random(in: 0...limit, using: &random)
                    table.setLimit(current)
                    evict()
                case 2:
                    current = limit
                    table.setLimit(current)
                default:
                    let longest = step % 50 == 0 ? limit : 60
                    let name = String(repeating: "n", count: Int.random(in: 0...20, using: &random)) + "\(step)"
                    let value = String(repeating: "v", count: Int.random(in: 0...longest, using: &random))
                    let (bytes, line) = Self.line(name, value)
                    table.insert(bytes.span, at: 0, line)
                    model.insert((String(decoding: bytes, as: UTF8.self), line.tableSize), at: 0)
                    evict()
                }
                let size = table.size
                expect(size, equals: model.reduce(0) { $0 + $1.size })
                guard step % 20 == 0 else { continue }
                let lines = table.lines.map { String(decoding: $0, as: UTF8.self) }
                expect(lines, equals: model.map(\.text))
            }
            let allocated = table.allocatedBytes
            #expect(allocated <= 4 * limit + 128 * 16 + 512)
        }
    }

    @Test("An empty table allocates nothing, and one that is compacted about the size of its entries")
    func memory() {
        var table = DynamicTable(limit: 4_096)
        let atFirst = table.allocatedBytes
        expect(atFirst, equals: 0)
        for number in 0..<1_000 {
            let (bytes, line) = Self.line("name-\(number)", "value")
            table.insert(bytes.span, at: 0, line)
        }
        let full = table.allocatedBytes
        #expect(full <= 2 * 4_096 + 128 * 16)
        table.setLimit(100)
        table.compact()
        let count = table.count
        expect(count, equals: 2)
        let compacted = table.allocatedBytes
        #expect(compacted <= 256)
        table.setLimit(0)
        table.compact()
        let empty = table.allocatedBytes
        #expect(empty <= 256)
    }
}
