import NIOCore

/// The bytes of `GET /__mock/bytes`: the same in all responses; a lost or duplicated byte changes all following ones.
public enum BytePattern {
    /// A prime, so that no power of two, such as a buffer size, is a multiple of the period.
    private static let periodLength = 251

    /// The byte at a non-negative offset.
    public static func byte(at offset: Int) -> UInt8 {
        UInt8(truncatingIfNeeded: offset % periodLength)
    }

    /// Whole periods, so that after any number of them the next byte is that of offset 0.
    static func period(times: Int) -> ByteBuffer {
        ByteBuffer(bytes: (0..<periodLength * times).map(byte(at:)))
    }
}
