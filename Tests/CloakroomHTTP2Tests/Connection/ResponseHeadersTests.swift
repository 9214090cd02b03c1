import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("Header blocks of responses")
struct ResponseHeadersTests {
    private static let plain = "x-filler"
    private let test = TestConnection()

    /// The block of HEADERS and CONTINUATION frames.
    private static func block(_ frames: [TestFrame]) -> [UInt8] { frames.flatMap(\.payload) }

    @Test("RFC 9113 §8.3.2: a head in one frame, with and without end")
    func head() throws {
        test.send(test.headers(1, end: true), test.headers(3, end: true))
        test.respond(1, status: 204, lines: "Server: a\r\nX-Upper: Yes\r\n", end: true)
        test.respond(3, status: 200)
        let frames = test.output()
        expect(frames.map(\.type), equals: [1, 1])
        expect(frames.map(\.flags), equals: [5, 4])
        expect(frames.map(\.stream), equals: [1, 3])
        expect(test.fields(frames[0].payload), equals: [":status=204", "server=a", "x-upper=Yes"])
        expect(test.fields(frames[1].payload), equals: [":status=200"])
    }

    @Test("Interim responses, the response and its trailers in order")
    func sequence() {
        test.send(test.headers(1, end: true))
        test.respond(1, status: 100)
        test.respond(1, status: 103, lines: "link: </a>\r\n")
        test.respond(1)
        test.connection.beginData(0, on: test.slot(1), endsStream: false)
        test.respond(1, status: nil, lines: "grpc-status: 0\r\n", end: true)
        let frames = test.output()
        expect(frames.map(\.type), equals: [1, 1, 1, 0, 1])
        expect(frames.map(\.flags), equals: [4, 4, 4, 0, 5])
        expect(
            frames.filter { $0.type == 1 }.map { test.fields($0.payload) },
            equals: [[":status=100"], [":status=103", "link=</a>"], [":status=200"], ["grpc-status=0"]])
    }

    @Test("Compaction frees what the encoder keeps between responses, but not while a stream is open")
    func compaction() {
        test.send(test.headers(1, end: true))
        // Lines that recur are kept.
        for _ in 0..<4 { test.respond(1, status: 103, lines: "x-first: a\r\nx-second: b\r\n") }
        _ = test.output()
        let before = test.connection.encoder.allocatedBytes
        test.connection.compact()
        let withStream = test.connection.encoder.allocatedBytes
        expect(withStream, equals: before)
        test.connection.finish(test.slot(1))
        test.connection.compact()
        let after = test.connection.encoder.allocatedBytes
        #expect(after < before)
    }

    @Test("Fields of an upstream's response, without those that are stripped or named")
    func upstreamHead() throws {
        test.send(test.headers(1, end: true))
        var parser = HeadParser(limits: HeadLimits())
        var head = ResponseHead()
        var bytes = ByteBuffer(
            string:
                "HTTP/1.1 201 Made\r\nContent-Type: a/b\r\nX-Upper-Case: Yes\r\nX-Gone: 1\r\nSet-Cookie: A=B\r\n\r\n")
        try expect(parser.parse(&bytes, into: &head))
        head.fields[2].isStripped = true
        let start = test.connection.beginHeaders(status: 201)
        test.connection.addFields(of: head, except: "x-upper-case", cache: test.cache)
        test.connection.addField("date", Array("now".utf8).span)
        test.connection.endHeaders(start, on: test.slot(1), endsStream: false)
        expect(
            test.fields(Self.block(test.output())),
            equals: [":status=201", "content-type=a/b", "set-cookie=A=B", "date=now"])
    }

    @Test("RFC 9113 §6.10: a block above 16,384 bytes continues in CONTINUATION frames, each full but the last")
    func continuation() {
        // A control character of the code is never Huffman-coded to fewer bytes, so sizes are near those of the text.
        for size in [16_000, 16_360, 16_384, 16_400, 32_700, 32_768, 40_000, 100_000] {
            let test = TestConnection()
            test.send(test.headers(1, end: true))
            let value = String(repeating: "\\", count: size)
            test.respond(1, lines: "\(Self.plain): \(value)\r\nx-last: a\r\n", end: true)
            let frames = test.output()
            let block = Self.block(frames)
            expect(frames.count, equals: (block.count + 16_383) / 16_384)
            expect(frames.map(\.type), equals: [1] + [UInt8](repeating: 9, count: frames.count - 1))
            expect(frames.dropLast().allSatisfy { $0.payload.count == 16_384 })
            expect(frames.allSatisfy { $0.stream == 1 })
            // The end of the stream is a flag of the first frame, the end of the block one of the last.
            expect(frames[0].flags, equals: (frames.count == 1 ? 5 : 1))
            expect(frames.count == 1 || frames[frames.count - 1].flags == 4)
            expect(frames.dropFirst().dropLast().allSatisfy { $0.flags == 0 })
            expect(test.fields(block), equals: [":status=200", "\(Self.plain)=\(value)", "x-last=a"])
        }
    }

    @Test("A block of exactly the size of a frame is one frame, one more byte makes two")
    func frameBorder() {
        for size in 16_300...16_400 {
            let test = TestConnection()
            test.send(test.headers(1, end: true))
            test.respond(1, lines: "\(Self.plain): \(String(repeating: "\\", count: size))\r\n")
            let frames = test.output()
            let count = Self.block(frames).count
            expect(frames.count, equals: (count > 16_384 ? 2 : 1))
            if count > 16_384 { expect(frames.map(\.payload.count), equals: [16_384, count - 16_384]) }
        }
    }

    @Test("A large block follows other output, and later heads are decoded correctly")
    func afterLargeBlock() {
        test.send(test.headers(1, end: true), test.headers(3, end: true), .ping())
        let location = "location: /\(String(repeating: "\\", count: 7_900))\r\n"
        for _ in 0..<4 {
            test.respond(1, lines: location + "x-user: alice\r\ncache-control: public\r\n" + location + location)
            test.respond(3, lines: "x-user: bob\r\ncache-control: no-store\r\n")
        }
        let frames = test.output()
        expect(frames.first == .settingsAcknowledgement || frames.first == .ping(acknowledgement: true))
        var block: [UInt8] = []
        var heads: [[String]] = []
        for frame in frames.dropFirst() {
            expect(frame.type, equals: (block.isEmpty ? 1 : 9))
            block += frame.payload
            guard frame.flags & 4 != 0 else { continue }
            heads.append(test.fields(block).filter { !$0.hasPrefix("location") })
            block = []
        }
        let alice = [":status=200", "x-user=alice", "cache-control=public"]
        let bob = [":status=200", "x-user=bob", "cache-control=no-store"]
        expect(heads, equals: [alice, bob, alice, bob, alice, bob, alice, bob])
    }

    @Test("The client's table size is obeyed in the next block", arguments: [0, 100, 4_096, 1 << 20, .max] as [UInt32])
    func tableSize(_ size: UInt32) {
        test.send(.settings([1: size]), .settings([1: 0]), .settings([1: size]))
        test.send(test.headers(1, end: true))
        _ = test.output()
        for number in 0..<50 {
            let lines = "server: a\r\nx-\(number % 20): \(number % 7)\r\ncontent-type: text/plain\r\n"
            test.respond(1, lines: lines)
            expect(
                test.fields(Self.block(test.output())),
                equals: [":status=200", "server=a", "x-\(number % 20)=\(number % 7)", "content-type=text/plain"])
        }
    }
}
