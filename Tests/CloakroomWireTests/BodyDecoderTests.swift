import CloakroomWire
import NIOCore
import TestSupport
import Testing

@Suite("A body's decoder")
struct BodyDecoderTests {
    @Test("RFC 9112 §6.3: detects the end of a length without more bytes")
    func length() throws {
        var decoder = BodyDecoder(.length(3))
        var buffer = ByteBuffer(string: "abcd")
        expect(!decoder.isDone)
        try expect(decoder.next(&buffer), equals: .data(ByteBuffer(string: "abc")))
        expect(decoder.isDone)
        try expect(decoder.next(&buffer), equals: .end)
        expect(buffer, equals: ByteBuffer(string: "d"))
    }

    @Test("is done at once if there is no body", arguments: [BodyFraming.none, .length(0)])
    func nothing(framing: BodyFraming) throws {
        var decoder = BodyDecoder(framing)
        var buffer = ByteBuffer(string: "GET")
        expect(decoder.isDone)
        try expect(decoder.next(&buffer), equals: .end)
        expect(buffer.readableBytes, equals: 3)
    }

    @Test("RFC 9112 §8: reports whether the end of the connection is the end of the body")
    func close() {
        let isComplete = [BodyFraming.none, .untilClose, .length(1), .chunked].map { framing in
            var decoder = BodyDecoder(framing)
            return decoder.close()
        }
        expect(isComplete, equals: [true, true, false, false])
    }

    @Test("returns the data of a chunk as it is received")
    func pieces() throws {
        var decoder = BodyDecoder(.chunked)
        var buffer = ByteBuffer(string: "5\r\nhe")
        try expect(decoder.next(&buffer), equals: .data(ByteBuffer(string: "he")))
        try expect(decoder.next(&buffer), equals: .needMoreData)
        buffer.writeString("llo\r\n0\r\n\r\n")
        try expect(decoder.next(&buffer), equals: .data(ByteBuffer(string: "llo")))
        try expect(decoder.next(&buffer), equals: .end)
        expect(decoder.isDone)
    }

    @Test("RFC 9112 §7.1.1: accepts at most 4,096 bytes of extensions in all chunks")
    func extensions() {
        // Each line uses up its semicolon and the bytes after it.
        let line = "1;" + String(repeating: "a", count: 1_023) + "\r\nx\r\n"
        let lines = String(repeating: line, count: 4)
        expect(read(lines + "0\r\n\r\n"), equals: nil)
        expect(read(lines + "0;a\r\n\r\n"), equals: .chunkExtension)
        expect(read("1;" + String(repeating: "a", count: 4_096) + "\r\n"), equals: .chunkExtension)
    }

    @Test("RFC 9112 §7.1.2: accepts at most 8,192 bytes of trailers")
    func trailers() {
        let name = "A: "
        func trailers(_ count: Int) -> String {
            "0\r\n" + name + String(repeating: "b", count: count - name.utf8.count - 4) + "\r\n\r\n"
        }
        expect(read(trailers(8_192)), equals: nil)
        expect(read(trailers(8_193)), equals: .trailer)
        expect(read("0\r\n" + String(repeating: "A:\r\n", count: 3_000)), equals: .trailer)
    }

    @Test("RFC 9112 §7.1.2: accepts at most 100 trailers")
    func trailerCount() {
        expect(read("0\r\n" + String(repeating: "A:\r\n", count: 100) + "\r\n"), equals: nil)
        expect(read("0\r\n" + String(repeating: "A:\r\n", count: 101) + "\r\n"), equals: .trailer)
    }

    @Test("RFC 9112 §7.1.2: returns the trailers once, when the body is complete")
    func takingTrailers() throws {
        var decoder = BodyDecoder(.chunked)
        var buffer = ByteBuffer(string: "0\r\nDigest: a\r\nDa")
        try expect(decoder.next(&buffer), equals: .needMoreData)
        let early = decoder.takeTrailers()
        expect(early, equals: nil)
        buffer.writeString("te: b\r\n\r\nGET")
        try expect(decoder.next(&buffer), equals: .end)
        expect(decoder.isDone)
        try expect(decoder.next(&buffer), equals: .end)
        let taken = decoder.takeTrailers()
        let section = try require(taken)
        expect(String(buffer: section.bytes), equals: "Digest: a\r\nDate: b\r\n")
        expect(section.fields.map(\.name), equals: [.other, .date])
        let again = decoder.takeTrailers()
        expect(again, equals: nil)
        expect(decoder.isDone)
        let isComplete = decoder.close()
        expect(isComplete)
        expect(String(buffer: buffer), equals: "GET")
    }

    @Test("returns no trailers if there are none", arguments: ["0\r\n\r\n", "1\r\na\r\n0\r\n\r\n"])
    func noTrailers(text: String) throws {
        var decoder = BodyDecoder(.chunked)
        var buffer = ByteBuffer(string: text)
        while try decoder.next(&buffer) != .end {}
        let trailers = decoder.takeTrailers()
        expect(trailers, equals: nil)
    }

    @Test("is no larger than a cache line, because each step copies it")
    func size() {
        #expect(MemoryLayout<BodyDecoder>.size <= 64)
    }

    @Test("RFC 9112 §7.1: accepts a chunk of any size that fits into 63 bits")
    func largestChunk() throws {
        var decoder = BodyDecoder(.chunked)
        var buffer = ByteBuffer(string: "7fffffffffffffff\r\nabc")
        try expect(decoder.next(&buffer), equals: .data(ByteBuffer(string: "abc")))
        try expect(decoder.next(&buffer), equals: .needMoreData)
    }

    private func read(_ text: String) -> WireError? {
        var decoder = BodyDecoder(.chunked)
        var buffer = ByteBuffer(string: text)
        do throws(WireError) {
            while true {
                switch try decoder.next(&buffer) {
                case .data: continue
                case .end, .needMoreData: return nil
                }
            }
        } catch {
            return error
        }
    }
}
