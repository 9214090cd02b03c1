import CloakroomWire
import NIOCore
import Testing

@Suite("A body's decoder")
struct BodyDecoderTests {
    @Test("RFC 9112 §6.3: detects the end of a length without more bytes")
    func length() throws {
        var decoder = BodyDecoder(.length(3))
        var buffer = ByteBuffer(string: "abcd")
        #expect(!decoder.isDone)
        #expect(try decoder.next(&buffer) == .data(ByteBuffer(string: "abc")))
        #expect(decoder.isDone)
        #expect(try decoder.next(&buffer) == .end)
        #expect(buffer == ByteBuffer(string: "d"))
    }

    @Test("is done at once if there is no body", arguments: [BodyFraming.none, .length(0)])
    func nothing(framing: BodyFraming) throws {
        var decoder = BodyDecoder(framing)
        var buffer = ByteBuffer(string: "GET")
        #expect(decoder.isDone)
        #expect(try decoder.next(&buffer) == .end)
        #expect(buffer.readableBytes == 3)
    }

    @Test("RFC 9112 §8: reports whether the end of the connection is the end of the body")
    func close() {
        let isComplete = [BodyFraming.none, .untilClose, .length(1), .chunked].map { framing in
            var decoder = BodyDecoder(framing)
            return decoder.close()
        }
        #expect(isComplete == [true, true, false, false])
    }

    @Test("returns the data of a chunk as it is received")
    func pieces() throws {
        var decoder = BodyDecoder(.chunked)
        var buffer = ByteBuffer(string: "5\r\nhe")
        #expect(try decoder.next(&buffer) == .data(ByteBuffer(string: "he")))
        #expect(try decoder.next(&buffer) == .needMoreData)
        buffer.writeString("llo\r\n0\r\n\r\n")
        #expect(try decoder.next(&buffer) == .data(ByteBuffer(string: "llo")))
        #expect(try decoder.next(&buffer) == .end)
        #expect(decoder.isDone)
    }

    @Test("RFC 9112 §7.1.1: accepts at most 4,096 bytes of extensions in all chunks")
    func extensions() {
        // Each line uses up its semicolon and the bytes after it.
        let line = "1;" + String(repeating: "a", count: 1_023) + "\r\nx\r\n"
        let lines = String(repeating: line, count: 4)
        #expect(read(lines + "0\r\n\r\n") == nil)
        #expect(read(lines + "0;a\r\n\r\n") == .chunkExtension)
        #expect(read("1;" + String(repeating: "a", count: 4_096) + "\r\n") == .chunkExtension)
    }

    @Test("RFC 9112 §7.1.2: accepts at most 8,192 bytes of trailers")
    func trailers() {
        let name = "A: "
        func trailers(_ count: Int) -> String {
            "0\r\n" + name + String(repeating: "b", count: count - name.utf8.count - 4) + "\r\n\r\n"
        }
        #expect(read(trailers(8_192)) == nil)
        #expect(read(trailers(8_193)) == .trailer)
        #expect(read("0\r\n" + String(repeating: "A:\r\n", count: 3_000)) == .trailer)
    }

    @Test("RFC 9112 §7.1.2: accepts at most 100 trailers")
    func trailerCount() {
        #expect(read("0\r\n" + String(repeating: "A:\r\n", count: 100) + "\r\n") == nil)
        #expect(read("0\r\n" + String(repeating: "A:\r\n", count: 101) + "\r\n") == .trailer)
    }

    @Test("RFC 9112 §7.1.2: returns the trailers once, when the body is complete")
    func takingTrailers() throws {
        var decoder = BodyDecoder(.chunked)
        var buffer = ByteBuffer(string: "0\r\nDigest: a\r\nDa")
        #expect(try decoder.next(&buffer) == .needMoreData)
        let early = decoder.takeTrailers()
        #expect(early == nil)
        buffer.writeString("te: b\r\n\r\nGET")
        #expect(try decoder.next(&buffer) == .end)
        #expect(decoder.isDone)
        #expect(try decoder.next(&buffer) == .end)
        let taken = decoder.takeTrailers()
        let section = try #require(taken)
        #expect(String(buffer: section.bytes) == "Digest: a\r\nDate: b\r\n")
        #expect(section.fields.map(\.name) == [.other, .date])
        let again = decoder.takeTrailers()
        #expect(again == nil)
        #expect(decoder.isDone)
        let isComplete = decoder.close()
        #expect(isComplete)
        #expect(String(buffer: buffer) == "GET")
    }

    @Test("returns no trailers if there are none", arguments: ["0\r\n\r\n", "1\r\na\r\n0\r\n\r\n"])
    func noTrailers(text: String) throws {
        var decoder = BodyDecoder(.chunked)
        var buffer = ByteBuffer(string: text)
        while try decoder.next(&buffer) != .end {}
        let trailers = decoder.takeTrailers()
        #expect(trailers == nil)
    }

    @Test("is no larger than a cache line, because each step copies it")
    func size() {
        #expect(MemoryLayout<BodyDecoder>.size <= 64)
    }

    @Test("RFC 9112 §7.1: accepts a chunk of any size that fits into 63 bits")
    func largestChunk() throws {
        var decoder = BodyDecoder(.chunked)
        var buffer = ByteBuffer(string: "7fffffffffffffff\r\nabc")
        #expect(try decoder.next(&buffer) == .data(ByteBuffer(string: "abc")))
        #expect(try decoder.next(&buffer) == .needMoreData)
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
