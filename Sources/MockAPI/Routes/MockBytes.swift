import NIOCore

/// The bytes of `GET /__mock/bytes`: the same for everybody, and a byte lost or doubled shows in all that follow.
public enum BytePattern {
    /// A prime, so that no power of two, such as a buffer's size, is a multiple of it.
    private static let periodLength = 251

    /// The byte at an offset of 0 or more.
    public static func byte(at offset: Int) -> UInt8 {
        UInt8(truncatingIfNeeded: offset % periodLength)
    }

    /// Whole periods: whatever number of them is sent, the next byte is that of offset 0.
    static func period(times: Int) -> ByteBuffer {
        ByteBuffer(bytes: (0..<periodLength * times).map(byte(at:)))
    }
}
