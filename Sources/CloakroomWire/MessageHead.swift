public import NIOCore

/// The head of a request: its bytes, and where in them everything stands.
///
/// Made to be used again for the next request on the same connection: its index keeps its room.
public struct RequestHead: Sendable {
    /// The head from the request line's first byte to the empty line's last.
    public var bytes: ByteBuffer
    /// The method.
    public var method = ByteRange(start: 0, count: 0)
    /// The target as it stands in the request line.
    public var target = ByteRange(start: 0, count: 0)
    /// The minor version: 0 or 1. Any later one counts as 1 (RFC 9112 §2.3).
    public var minorVersion: UInt8 = 1
    /// The fields, in order.
    public var fields: [FieldSlice] = []

    /// Makes an empty head.
    public init() {
        bytes = ByteBuffer()
        fields.reserveCapacity(32)
    }

    /// Forgets the message and lets go of its bytes; the index keeps its room.
    @inlinable
    public mutating func reset() {
        fields.removeAll(keepingCapacity: true)
        bytes = ByteBuffer()
    }
}

/// The head of a response: its bytes, and where in them everything stands.
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

    /// Makes an empty head.
    public init() {
        bytes = ByteBuffer()
        fields.reserveCapacity(32)
    }

    /// Forgets the message and lets go of its bytes; the index keeps its room.
    @inlinable
    public mutating func reset() {
        fields.removeAll(keepingCapacity: true)
        bytes = ByteBuffer()
    }
}
