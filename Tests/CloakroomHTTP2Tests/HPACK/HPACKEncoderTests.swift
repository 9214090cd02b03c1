import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("Encoding of header blocks")
struct HPACKEncoderTests {
    private static let lines = "200 OK\r\nContent-Type:text/html\r\nX-Frame-Options: DENY\r\nVary:  Cookie \r\n"
    private static let fields = [":status=200", "content-type=text/html", "x-frame-options=DENY", "vary=Cookie"]
    private let encoder = TestEncoder()

    @Test("Names are in lower case, values without the white space around them, in all representations")
    func normalized() throws {
        for _ in 0..<6 { try expect(encoder.send(Self.lines), equals: Self.fields) }
    }

    @Test("A line that recurs is inserted, and then one byte")
    func recurring() throws {
        var sizes: [Int] = []
        for _ in 0..<5 {
            _ = try encoder.send(Self.lines)
            sizes.append(encoder.block.count)
        }
        expect(sizes[0], equals: sizes[1])
        #expect(sizes[2] < sizes[1])
        expect(sizes[3...], equals: [4, 4])
        expect(
            encoder.tableLines,
            equals: ["vary: Cookie\r\n", "x-frame-options: DENY\r\n", "content-type: text/html\r\n"])
    }

    @Test("The first responses of a connection do not reveal which lines other connections of the loop received")
    func sharedCache() throws {
        let cache = ResponseLineCache()
        let other = TestEncoder(cache: cache)
        for _ in 0..<5 { _ = try other.send(Self.lines) }
        let first = TestEncoder(cache: cache)
        let fresh = TestEncoder()
        for _ in 0..<2 {
            _ = try first.send(status: 200, lines: "Content-Type: text/html\r\n")
            _ = try fresh.send(status: 200, lines: "Content-Type: text/html\r\n")
        }
        let unseen = TestEncoder()
        _ = try unseen.send(Self.lines)
        let seen = TestEncoder(cache: cache)
        _ = try seen.send(Self.lines)
        expect(seen.block, equals: unseen.block)
    }

    @Test("Stripped fields and the excepted one are omitted")
    func omitted() throws {
        var head = try TestEncoder.head("201 Made\r\nA: 1\r\nSec-WebSocket-Accept: x\r\nB: 2\r\nC: 3\r\n")
        head.fields[2].isStripped = true
        for _ in 0..<4 {
            try expect(
                encoder.send(head, except: "sec-websocket-accept"), equals: [":status=201", "a=1", "c=3"])
        }
        try expect(encoder.send(head), equals: [":status=201", "a=1", "sec-websocket-accept=x", "c=3"])
    }

    @Test(
        "Every status has three digits",
        arguments: [100, 103, 200, 204, 206, 299, 304, 400, 401, 404, 418, 500, 503, 599, 999])
    func status(_ status: Int) throws {
        try expect(encoder.send(status: status, lines: ""), equals: [":status=\(status)"])
        expect(encoder.block.count, equals: [200, 204, 206, 304, 400, 404, 500].contains(status) ? 1 : 5)
    }

    @Test("Complete lines of the gateway, and trailers, which have no status")
    func fieldLines() throws {
        for _ in 0..<4 {
            try expect(
                encoder.send(status: 403, lines: "A-B: c d\r\nE:f\r\nG: \r\nH:\t i \r\n"),
                equals: [":status=403", "a-b=c d", "e=f", "g=", "h=i"])
            try expect(encoder.send(status: nil, lines: "grpc-status: 0\r\n"), equals: ["grpc-status=0"])
            try expect(encoder.send(status: nil, lines: ""), equals: [])
            try expect(encoder.send(name: "content-length", value: "17"), equals: ["content-length=17"])
            try expect(encoder.send(name: "x-other", value: ""), equals: ["x-other="])
        }
        expect(encoder.tableCount, equals: 5)
    }

    @Test(
        "Lines whose values are unique are not inserted, however often they recur",
        arguments: [
            "set-cookie", "authorization", "proxy-authorization", "proxy-authenticate", "www-authenticate", "location",
            "content-location", "etag", "last-modified", "content-length", "content-range", "age", "expires",
            "x-request-id", "traceparent", "tracestate", "authentication-info", "proxy-authentication-info",
        ])
    func neverInserted(name: String) throws {
        for _ in 0..<5 {
            try expect(encoder.send("200 OK\r\n\(name): 1\r\n"), equals: [":status=200", "\(name)=1"])
            try expect(
                encoder.send(status: 200, lines: "\(name.uppercased()): 1\r\n"), equals: [":status=200", "\(name)=1"])
        }
        expect(encoder.tableCount, equals: 0)
    }

    @Test(
        "RFC 7541 §7.1.3: sensitive fields have the representation that no intermediary may index",
        arguments: [("set-cookie", true), ("authorization", true), ("www-authenticate", true), ("etag", false)])
    func neverIndexed(name: String, isSensitive: Bool) throws {
        _ = try encoder.send(status: nil, lines: "\(name): 1\r\n")
        expect(encoder.block.first.map { $0 & 0xf0 }, equals: (isSensitive ? 0x10 : 0))
        _ = try encoder.send("200 OK\r\n\(name): 1\r\n")
        expect(encoder.block[1] & 0xf0, equals: (isSensitive ? 0x10 : 0))
    }

    @Test("Unique values never evict lines that recur")
    func unique() throws {
        for _ in 0..<4 { _ = try encoder.send(Self.lines) }
        for number in 0..<1_000 { _ = try encoder.send("200 OK\r\nX-Unique: value-\(number)\r\n") }
        expect(encoder.tableCount, equals: 3)
        for _ in 0..<2 { try expect(encoder.send(Self.lines), equals: Self.fields) }
        expect(encoder.tableCount, equals: 3)
    }

    @Test("Lines of all lengths, with values and names around the limits of lengths and of the cache")
    func lengths() throws {
        for length in Array(0...300) + [4_000, 4_064, 4_096, 16_000, 60_000] {
            let value = String(repeating: "v", count: length)
            for (name, text) in [("x", value), ("x" + value.prefix(400), value), ("server", value)] {
                for _ in 0..<3 {
                    try expect(
                        encoder.send("200 OK\r\n\(name.uppercased()): \(text)\r\n"),
                        equals: [
                            ":status=200", "\(name)=\(text)",
                        ])
                }
            }
        }
    }

    @Test("A head with many fields, of bytes whose Huffman codes are the longest")
    func manyFields() throws {
        let value = String(repeating: "\\", count: 7_900)
        let many = (0..<5_000).map { "a\($0): \\\r\n" }.joined()
        for _ in 0..<3 {
            try expect(
                encoder.send("302 Found\r\nLocation: \(value)\r\n"), equals: [":status=302", "location=\(value)"])
            try expect(encoder.send("200 OK\r\n" + many).count, equals: 5_001)
            #expect(encoder.block.count < 2 * many.utf8.count)
        }
    }

    @Test("RFC 7541 §4.2: changes of the table size begin the next block, the lowest one first")
    func tableSize() throws {
        _ = try encoder.send(Self.lines)
        expect(encoder.block.first, equals: 0x88)
        for (limits, expected) in [
            ([4_096], []), ([65_536], []), ([1_000], ["3f c9 07"]), ([0], ["20"]), ([100], ["3f 45"]),
            ([0, 4_096], ["20", "3f e1 1f"]), ([50, 10, 2_000, 30], ["2a", "3e"]), ([Int.max], ["3f e1 1f"]),
            ([-1], ["20"]), ([4_096, 0], []), ([4_096], ["3f e1 1f"]), ([5_000, 4_097], []),
        ] as [([Int], [String])] {
            for limit in limits { encoder.setTableLimit(limit) }
            try expect(encoder.send(Self.lines), equals: Self.fields)
            let prefix = expected.flatMap { hex($0) }
            expect(Array(encoder.block.prefix(prefix.count + 1)), equals: prefix + [0x88], "\(limits)")
            try expect(encoder.send(Self.lines), equals: Self.fields)
            expect(encoder.block.first, equals: 0x88)
        }
    }

    @Test("A small table of the client is respected: it is not filled by one line, and 0 is never used")
    func smallTable() throws {
        for limit in [0, 32, 100, 400, 1_000] {
            let encoder = TestEncoder()
            encoder.setTableLimit(limit)
            for _ in 0..<5 { try expect(encoder.send(Self.lines), equals: Self.fields) }
            #expect(encoder.tableSize <= limit)
            expect(encoder.tableCount, equals: (limit < 400 ? 0 : limit < 1_000 ? 1 : 3))
        }
    }

    /// A response with 20 fields whose values no other response has.
    private static func unique(_ number: Int) -> String {
        "200 OK\r\n" + (0..<20).map { "X-Unique-\($0): value-\(number)-\($0)\r\n" }.joined()
    }

    @Test(
        "Rule 54: the encoder uses at most 4,096 bytes, whatever size the client allows",
        arguments: [4_097, 65_536, 1 << 20, Int(UInt32.max)])
    func cap(_ size: Int) throws {
        // The client's decoder has exactly 4,096 bytes, and fails on an update beyond.
        encoder.setTableLimit(size)
        for number in 0..<300 {
            for _ in 0..<3 {
                try expect(encoder.send(Self.unique(number)).last, equals: "x-unique-19=value-\(number)-19")
                #expect(encoder.tableSize <= 4_096)
            }
        }
    }

    @Test("Rule 54: the cost of a response does not grow with the number of distinct fields sent before")
    func cost() throws {
        encoder.setTableLimit(.max)
        var durations: [Duration] = []
        for batch in 0..<30 {
            let start = ContinuousClock.now
            for index in 0..<100 { _ = try encoder.send(Self.unique(100 * batch + index)) }
            durations.append(.now - start)
        }
        let early = durations.dropFirst().prefix(8).min() ?? .seconds(1)
        let late = durations.suffix(8).min() ?? .zero
        // A linear search of the fields sent before would take tens of times as long.
        #expect(late < early * 5, "100 responses took \(early), later \(late)")
    }

    @Test("Rule 54: 1,000 changes of the table size between two responses cost no more than two updates")
    func sizeChanges() throws {
        for _ in 0..<5 {
            for number in 0..<1_000 {
                encoder.setTableLimit(number % 2 == 0 ? 0 : Int.random(in: 1...Int(UInt32.max)))
            }
            try expect(encoder.send(Self.lines), equals: Self.fields)
            // To 0 in one byte, and to the last size in at most three; then the status follows.
            expect(encoder.block.first, equals: 0x20)
            #expect((encoder.block.firstIndex(of: 0x88) ?? .max) <= 4)
        }
    }

    @Test("Memory: nothing at first, bounded after many lines, little after compaction, which loses no entry")
    func memory() throws {
        expect(encoder.allocatedBytes, equals: 0)
        for number in 0..<500 {
            for _ in 0..<3 { _ = try encoder.send("200 OK\r\nX-\(number): \(String(repeating: "a", count: 100))\r\n") }
        }
        #expect(encoder.tableSize > 3_900)
        #expect(encoder.allocatedBytes < 12_000)
        let lines = encoder.tableLines
        encoder.compact()
        #expect(encoder.allocatedBytes < 5_000)
        expect(encoder.tableLines, equals: lines)
        for _ in 0..<5 { try expect(encoder.send(Self.lines), equals: Self.fields) }
    }
}
