import CloakroomWire
import TestSupport
import Testing

@Suite("Splitting the input makes no difference")
struct SegmentationTests {
    @Test(
        "Requests: whole, byte by byte and in random pieces", arguments: RequestHeadCorpus.all + RequestBodyCorpus.all)
    func requests(_ message: WireCase) {
        check(message.bytes, .requests)
    }

    @Test("Responses: whole, byte by byte and in random pieces", arguments: ResponseCorpus.all)
    func responses(_ message: WireCase) {
        check(message.bytes, .responses(isToHead: false))
        check(message.bytes, .responses(isToHead: true))
    }

    @Test("Small limits: whole, byte by byte and in random pieces", arguments: RequestHeadCorpus.good)
    func limits(_ message: WireCase) {
        check(message.bytes, .requests, limits: HeadLimits(fields: 1, target: 3))
    }

    @Test("All valid requests in sequence, in random pieces")
    func pipelined() {
        let complete = (RequestHeadCorpus.all + RequestBodyCorpus.all).filter {
            $0.error == nil && $0.leftover.isEmpty && $0.messages.allSatisfy { !$0.hasSuffix("…") }
        }
        let bytes = complete.flatMap(\.bytes)
        expect(MessageReader.read(bytes, .requests).messages, equals: complete.flatMap(\.messages))
        check(bytes, .requests)
    }

    @Test("A large body in random pieces, with and without chunks")
    func largeBodies() {
        let part = String(repeating: "0123456789abcdef", count: 256)
        let length = "POST / HTTP/1.1\r\nContent-Length: \(part.utf8.count * 4)\r\n\r\n" + part + part + part + part
        let chunk = "1000;a=b\r\n\(part)\r\n"
        let chunks = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + chunk + "0\r\nA: b\r\n\r\n"
        check(Array((length + chunks + length).utf8), .requests)
    }

    private func check(_ bytes: [UInt8], _ direction: MessageReader.Direction, limits: HeadLimits = HeadLimits()) {
        let whole = MessageReader.read(bytes, direction, limits: limits)
        let single = MessageReader.read(bytes, direction, limits: limits, cuts: Array(bytes.indices))
        expect(single, equals: whole, "byte by byte")
        for seed in UInt64(0)..<24 {
            var generator = SeededGenerator(seed: seed)
            let cuts = ChunkBoundaries.random(in: bytes.count, using: &generator)
            let pieces = MessageReader.read(
                bytes, direction, limits: limits, cuts: cuts, discards: seed.isMultiple(of: 2))
            expect(pieces, equals: whole, "seed \(seed), cut at \(cuts)")
        }
    }
}
