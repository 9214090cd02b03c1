import CloakroomWire
import NIOCore
import Testing

@Suite("A body's decoder")
struct BodyDecoderTests {
    @Test("RFC 9112 §6.3: knows the end of a length without more bytes")
    func length() throws {
        var decoder = BodyDecoder(.length(3))
        var buffer = ByteBuffer(string: "abcd")
        #expect(!decoder.isDone)
        #expect(try decoder.next(&buffer) == .data(ByteBuffer(string: "abc")))
        #expect(decoder.isDone)
        #expect(try decoder.next(&buffer) == .end)
        #expect(buffer == ByteBuffer(string: "d"))
    }

    @Test("is done at once where there is nothing", arguments: [BodyFraming.none, .length(0)])
    func nothing(framing: BodyFraming) throws {
        var decoder = BodyDecoder(framing)
        var buffer = ByteBuffer(string: "GET")
        #expect(decoder.isDone)
        #expect(try decoder.next(&buffer) == .end)
        #expect(buffer.readableBytes == 3)
    }

    @Test("RFC 9112 §8: tells whether a connection's end is the body's end")
    func close() {
        let isComplete = [BodyFraming.none, .untilClose, .length(1), .chunked].map { framing in
            var decoder = BodyDecoder(framing)
            return decoder.close()
        }
        #expect(isComplete == [true, true, false, false])
    }

    @Test("gives the data of a chunk as it comes")
    func pieces() throws {
        var decoder = BodyDecoder(.chunked)
        var buffer = ByteBuffer(string: "5\r\nhe")
        #expect(try decoder.next(&buffer) == .data(ByteBuffer(string: "he")))
        #expect(try decoder.next(&buffer) == .needsMore)
        buffer.writeString("llo\r\n0\r\n\r\n")
        #expect(try decoder.next(&buffer) == .data(ByteBuffer(string: "llo")))
        #expect(try decoder.next(&buffer) == .end)
        #expect(decoder.isDone)
    }

    @Test("RFC 9112 §7.1.1: takes 4,096 bytes of extensions over all chunks, and not one more")
    func extensions() {
        // Each line spends its semicolon and what is behind it.
        let line = "1;" + String(repeating: "a", count: 1_023) + "\r\nx\r\n"
        let lines = String(repeating: line, count: 4)
        #expect(read(lines + "0\r\n\r\n") == nil)
        #expect(read(lines + "0;\r\n\r\n") == .chunkExtension)
        #expect(read("1;" + String(repeating: "a", count: 4_096) + "\r\n") == .chunkExtension)
    }

    @Test("RFC 9112 §7.1.2: takes 8,192 bytes of trailers, and not one more")
    func trailers() {
        let name = "A: "
        func trailers(_ count: Int) -> String {
            "0\r\n" + name + String(repeating: "b", count: count - name.utf8.count - 4) + "\r\n\r\n"
        }
        #expect(read(trailers(8_192)) == nil)
        #expect(read(trailers(8_193)) == .trailer)
        #expect(read("0\r\n" + String(repeating: "A:\r\n", count: 3_000)) == .trailer)
    }

    @Test("RFC 9112 §7.1: takes a chunk of any size that fits 63 bits")
    func largestChunk() throws {
        var decoder = BodyDecoder(.chunked)
        var buffer = ByteBuffer(string: "7fffffffffffffff\r\nabc")
        #expect(try decoder.next(&buffer) == .data(ByteBuffer(string: "abc")))
        #expect(try decoder.next(&buffer) == .needsMore)
    }

    private func read(_ text: String) -> WireError? {
        var decoder = BodyDecoder(.chunked)
        var buffer = ByteBuffer(string: text)
        do throws(WireError) {
            while true {
                switch try decoder.next(&buffer) {
                case .data: continue
                case .end, .needsMore: return nil
                }
            }
        } catch {
            return error
        }
    }
}
