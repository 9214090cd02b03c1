import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("Frame header")
struct FrameHeaderTests {
    private static let bytes: [UInt8] = [0x01, 0x02, 0x03, 0x09, 0x25, 0x7f, 0xff, 0xff, 0xfe]

    @Test("RFC 9113 §4.1: nine bytes hold length, type, flags and stream")
    func layout() throws {
        let header = try require(FrameHeader(peekingAt: ByteBuffer(bytes: Self.bytes)))
        expect(header.length, equals: 0x01_0203)
        expect(header.type, equals: FrameType.continuation)
        expect(header.flags, equals: 0x25)
        expect(header.streamID, equals: 0x7fff_fffe)
        var output = ByteBuffer()
        header.write(to: &output)
        expect(Array(output.readableBytesView), equals: Self.bytes)
    }

    @Test("RFC 9113 §4.1: the reserved bit of the stream is ignored")
    func reservedBit() throws {
        var bytes = Self.bytes
        bytes[5] |= 0x80
        let header = try require(FrameHeader(peekingAt: ByteBuffer(bytes: bytes)))
        expect(header.streamID, equals: 0x7fff_fffe)
    }

    @Test("Fewer than nine bytes are no header, and nothing is consumed", arguments: 0..<9)
    func incomplete(_ count: Int) {
        let buffer = ByteBuffer(bytes: Self.bytes.prefix(count))
        let isNil = FrameHeader(peekingAt: buffer) == nil
        expect(isNil)
        expect(buffer.readableBytes, equals: count)
    }

    @Test("A header is read from the reader index of a buffer, and bytes after it do not matter")
    func position() throws {
        var buffer = ByteBuffer(bytes: [1, 2, 3] + Self.bytes + [4, 5])
        buffer.moveReaderIndex(forwardBy: 3)
        let header = try require(FrameHeader(peekingAt: buffer))
        expect(header, equals: FrameHeader(length: 0x01_0203, type: 9, flags: 0x25, streamID: 0x7fff_fffe))
    }

    @Test("A header replaces nine bytes at a position, and no others")
    func replaced() {
        var buffer = ByteBuffer(repeating: 0xaa, count: 12)
        FrameHeader(length: 0xfffffe, type: 1, flags: 2, streamID: 0x0102_0304).set(in: &buffer, at: 2)
        expect(
            Array(buffer.readableBytesView),
            equals: [
                0xaa, 0xaa, 0xff, 0xff, 0xfe, 1, 2, 1, 2, 3, 4, 0xaa,
            ])
    }

    @Test("RFC 9113 §7: error codes have their numbers")
    func errorCodes() {
        expect(HTTP2ErrorCode.allCases.map(\.rawValue), equals: Array(0...13))
        expect(HTTP2ErrorCode.compressionError.rawValue, equals: 9)
        expect(HTTP2ErrorCode.enhanceYourCalm.rawValue, equals: 11)
        expect(HTTP2ErrorCode.http11Required.rawValue, equals: 13)
    }
}
