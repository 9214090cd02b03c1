import CloakroomWire
import NIOCore
import TestSupport
import Testing

@Suite("Chunk encoder")
struct ChunkEncoderTests {
    @Test(
        "RFC 9112 §7.1: a size is written in hexadecimal without leading zeros",
        arguments: [
            (1, "1"), (9, "9"), (10, "a"), (15, "f"), (16, "10"), (255, "ff"), (256, "100"), (4_095, "fff"),
            (4_096, "1000"), (65_535, "ffff"), (65_536, "10000"), (1_048_576, "100000"), (.max, "7fffffffffffffff"),
        ] as [(Int, String)])
    func sizes(count: Int, expected: String) {
        var buffer = ByteBuffer()
        ChunkEncoder.writeChunkStart(count, into: &buffer)
        expect(String(buffer: buffer), equals: expected + "\r\n")
    }

    @Test(
        "Encoded chunks are decoded unchanged",
        arguments: [1, 15, 16, 17, 255, 256, 257, 4_095, 4_096, 4_097, 65_535, 65_536, 65_537])
    func roundTrip(count: Int) throws {
        let data = ByteBuffer(repeating: UInt8(ascii: "x"), count: count)
        var buffer = ByteBuffer()
        for _ in 0..<2 {
            ChunkEncoder.writeChunkStart(count, into: &buffer)
            buffer.writeImmutableBuffer(data)
            ChunkEncoder.writeChunkEnd(into: &buffer)
        }
        ChunkEncoder.writeLastChunk(into: &buffer)
        buffer.writeString("next")
        var decoder = BodyDecoder(.chunked)
        try expect(decoder.next(&buffer), equals: .data(data))
        try expect(decoder.next(&buffer), equals: .data(data))
        try expect(decoder.next(&buffer), equals: .end)
        expect(String(buffer: buffer), equals: "next")
    }

    @Test("RFC 9112 §7.1.2: trailers follow the last chunk and are parsed unchanged")
    func trailers() throws {
        let lines = ByteBuffer(string: "A: b\r\nC: d\r\n")
        var buffer = ByteBuffer()
        ChunkEncoder.writeLastChunk(trailers: lines, into: &buffer)
        expect(String(buffer: buffer), equals: "0\r\nA: b\r\nC: d\r\n\r\n")
        var decoder = BodyDecoder(.chunked)
        try expect(decoder.next(&buffer), equals: .end)
        let section = decoder.takeTrailers()
        expect(section?.bytes, equals: lines)
    }

    @Test("Without trailers the end is a plain last chunk", arguments: [nil, ByteBuffer()])
    func noTrailers(lines: ByteBuffer?) {
        var buffer = ByteBuffer()
        ChunkEncoder.writeLastChunk(trailers: lines, into: &buffer)
        expect(String(buffer: buffer), equals: "0\r\n\r\n")
    }
}
