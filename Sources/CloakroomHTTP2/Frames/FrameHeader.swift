import NIOCore

/// Type of a frame (RFC 9113 §6; RFC 9218 §7.1).
enum FrameType {
    static let data: UInt8 = 0
    static let headers: UInt8 = 1
    static let priority: UInt8 = 2
    static let resetStream: UInt8 = 3
    static let settings: UInt8 = 4
    static let pushPromise: UInt8 = 5
    static let ping: UInt8 = 6
    static let goAway: UInt8 = 7
    static let windowUpdate: UInt8 = 8
    static let continuation: UInt8 = 9
    static let priorityUpdate: UInt8 = 16
}

/// Flags of a frame (RFC 9113 §6).
enum FrameFlag {
    static let acknowledgement: UInt8 = 0x1
    static let endStream: UInt8 = 0x1
    static let endHeaders: UInt8 = 0x4
    static let padded: UInt8 = 0x8
    static let priority: UInt8 = 0x20
}

/// The nine bytes before the payload of a frame (RFC 9113 §4.1).
struct FrameHeader: Equatable {
    /// Number of bytes.
    static let size = 9
    /// Largest payload that either side may send: the initial value of SETTINGS_MAX_FRAME_SIZE, which this
    /// implementation neither raises for itself nor uses more of.
    static let maximumLength = 16_384

    /// Length of the payload, 0...16,777,215.
    var length: Int
    var type: UInt8
    var flags: UInt8 = 0
    /// The stream, 0...2,147,483,647; 0 for the connection. The reserved bit is ignored.
    var streamID: UInt32 = 0
}

extension FrameHeader {
    /// Reads a header without consuming it.
    /// - Returns: `nil` if there are fewer than nine bytes.
    init?(peekingAt input: borrowing ByteBuffer) {
        guard input.readableBytes >= Self.size else { return nil }
        let raw = input.readableBytesSpan
        let first = UInt64(bigEndian: raw.unsafeLoadUnaligned(as: UInt64.self))
        let last = raw.unsafeLoad(fromByteOffset: 8, as: UInt8.self)
        length = Int(first >> 40)
        type = UInt8(truncatingIfNeeded: first >> 32)
        flags = UInt8(truncatingIfNeeded: first >> 24)
        streamID = (UInt32(truncatingIfNeeded: first) << 8 | UInt32(last)) & 0x7fff_ffff
    }

    func has(_ flag: UInt8) -> Bool { flags & flag != 0 }

    /// The first eight bytes, as one number.
    private var leadingBytes: UInt64 {
        UInt64(truncatingIfNeeded: length) << 40 | UInt64(type) << 32 | UInt64(flags) << 24 | UInt64(streamID >> 8)
    }

    func write(to output: inout ByteBuffer) {
        output.writeMultipleIntegers(leadingBytes, UInt8(truncatingIfNeeded: streamID))
    }

    /// Replaces the header at a position.
    func set(in output: inout ByteBuffer, at index: Int) {
        output.setInteger(leadingBytes, at: index)
        output.setInteger(UInt8(truncatingIfNeeded: streamID), at: index + 8)
    }
}

extension Span where Element == UInt8 {
    /// Reads a big-endian number of four bytes; the caller has checked the length.
    func uint32(at offset: Int) -> UInt32 {
        UInt32(bigEndian: bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }

    /// Reads a big-endian number of two bytes; the caller has checked the length.
    func uint16(at offset: Int) -> UInt16 {
        UInt16(bigEndian: bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt16.self))
    }
}
