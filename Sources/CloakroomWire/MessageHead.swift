public import NIOCore

/// The head of a request: its bytes, and the positions of its parts.
///
/// Reusable for the next request on the same connection: the capacity of its index is kept.
public struct RequestHead: Sendable {
    /// The head from the request line's first byte to the empty line's last.
    public var bytes: ByteBuffer
    /// The method.
    public var method = ByteRange(start: 0, count: 0)
    /// The target of the request line.
    public var target = ByteRange(start: 0, count: 0)
    /// The minor version: 0 or 1. Later versions count as 1 (RFC 9112 §2.3).
    public var minorVersion: UInt8 = 1
    /// The fields, in order.
    public var fields: [FieldSlice] = []

    /// Creates an empty head.
    public init() {
        bytes = ByteBuffer()
        fields.reserveCapacity(32)
    }

    /// Resets the head and releases its bytes; the capacity of the index is kept.
    @inlinable
    public mutating func reset() {
        fields.removeAll(keepingCapacity: true)
        bytes = ByteBuffer()
    }
}

/// The head of a response: its bytes, and the positions of its parts.
public struct ResponseHead: Sendable {
    /// The head from the status line's first byte to the empty line's last.
    public var bytes: ByteBuffer
    /// The status code, 100...999.
    public var status = 0
    /// The reason phrase; may be empty.
    public var reason = ByteRange(start: 0, count: 0)
    /// The minor version: 0 or 1.
    public var minorVersion: UInt8 = 1
    /// The fields, in order.
    public var fields: [FieldSlice] = []

    /// Creates an empty head.
    public init() {
        bytes = ByteBuffer()
        fields.reserveCapacity(32)
    }

    /// Resets the head and releases its bytes; the capacity of the index is kept.
    @inlinable
    public mutating func reset() {
        fields.removeAll(keepingCapacity: true)
        bytes = ByteBuffer()
    }
}
