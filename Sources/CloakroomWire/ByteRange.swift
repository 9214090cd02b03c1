/// A run of bytes within a message's head.
public struct ByteRange: Sendable, Equatable {
    /// Offset of the first byte, 0...65,535.
    public var start: Int
    /// How many bytes, 0...65,535.
    public var count: Int

    /// Makes a range.
    @inlinable
    public init(start: Int, count: Int) {
        self.start = start
        self.count = count
    }

    /// Offset behind the last byte.
    @inlinable
    public var end: Int { start + count }
    /// Whether there is no byte in it.
    @inlinable
    public var isEmpty: Bool { count == 0 }
}
