/// A range of bytes within a message head.
public struct ByteRange: Sendable, Equatable {
    /// Offset of the first byte, 0...65,535.
    public var start: Int
    /// The number of bytes, 0...65,535.
    public var count: Int

    /// Creates a range.
    @inlinable
    public init(start: Int, count: Int) {
        self.start = start
        self.count = count
    }

    /// Offset after the last byte.
    @inlinable
    public var end: Int { start + count }
    /// Whether the range has no bytes.
    @inlinable
    public var isEmpty: Bool { count == 0 }
}
