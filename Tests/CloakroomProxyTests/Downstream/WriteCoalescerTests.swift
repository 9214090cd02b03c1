import NIOCore
import NIOEmbedded
import Testing

@testable import CloakroomProxy

@Suite("Small writes that are coalesced")
struct WriteCoalescerTests {
    private static func channel() throws -> EmbeddedChannel {
        let channel = EmbeddedChannel()
        try channel.pipeline.syncOperations.addHandler(WriteCoalescer())
        return channel
    }

    private static func bytes(_ count: Int, _ byte: UInt8 = 1) -> IOData {
        .byteBuffer(ByteBuffer(repeating: byte, count: count))
    }

    /// The bytes written, one element per write.
    private static func pieces(_ channel: EmbeddedChannel) throws -> [ByteBuffer] {
        var pieces: [ByteBuffer] = []
        while let piece = try channel.readOutbound(as: ByteBuffer.self) { pieces.append(piece) }
        return pieces
    }

    @Test("Are written as one at the flush, and not before")
    func gathered() throws {
        let channel = try Self.channel()
        for byte in 1...3 as ClosedRange<UInt8> { channel.write(Self.bytes(2, byte), promise: nil) }
        #expect(try Self.pieces(channel).isEmpty)
        channel.flush()
        #expect(try Self.pieces(channel) == [ByteBuffer(bytes: [1, 1, 2, 2, 3, 3])])
        channel.flush()
        #expect(try Self.pieces(channel).isEmpty)
        _ = try channel.finish()
    }

    @Test("Keep their order relative to large ones, and all bytes")
    func order() throws {
        let channel = try Self.channel()
        var expected = ByteBuffer()
        for (count, byte) in [(9, 1), (16_384, 2), (8_192, 3), (8_192, 4), (1, 5), (8_193, 6), (3, 7)] {
            let bytes = ByteBuffer(repeating: UInt8(byte), count: count)
            expected.writeImmutableBuffer(bytes)
            channel.write(IOData.byteBuffer(bytes), promise: nil)
        }
        channel.flush()
        let pieces = try Self.pieces(channel)
        var all = ByteBuffer()
        for piece in pieces { all.writeImmutableBuffer(piece) }
        #expect(all == expected)
        #expect(pieces.allSatisfy { $0.readableBytes <= 16_384 })
        _ = try channel.finish()
    }

    @Test("A buffer that was passed on is not modified again")
    func ownership() throws {
        let channel = try Self.channel()
        channel.write(Self.bytes(4, 1), promise: nil)
        channel.flush()
        let first = try Self.pieces(channel)
        channel.write(Self.bytes(4, 2), promise: nil)
        channel.flush()
        #expect(first == [ByteBuffer(repeating: 1, count: 4)])
        #expect(try Self.pieces(channel) == [ByteBuffer(repeating: 2, count: 4)])
        _ = try channel.finish()
    }

    @Test("All promises succeed once the bytes are written", arguments: [1, 9_000])
    func promises(size: Int) throws {
        let channel = try Self.channel()
        let futures = (0..<3).map { _ in channel.write(Self.bytes(size)) }
        channel.flush()
        for future in futures { try future.wait() }
        #expect(try Self.pieces(channel).reduce(0) { $0 + $1.readableBytes } == 3 * size)
        _ = try channel.finish()
    }

    @Test("Coalesced bytes are written before the close")
    func end() throws {
        let channel = try Self.channel()
        channel.write(Self.bytes(3), promise: nil)
        channel.close(promise: nil)
        #expect(try channel.finish(acceptAlreadyClosed: true).hasLeftOvers || true)
        #expect(!channel.isActive)
    }
}
