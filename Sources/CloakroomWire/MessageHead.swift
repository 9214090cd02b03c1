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

    package func copy(of range: ByteRange) -> [UInt8] {
        bytes.getBytes(at: bytes.readerIndex + range.start, length: range.count) ?? []
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

/// A parsed header field: the positions of its name and value in the head, its kind, and whether it is forwarded.
public struct FieldSlice: Sendable, Equatable {
    /// Offset of the name, which is the start of the line.
    public var nameStart: UInt16
    /// Length of the name.
    public var nameCount: UInt16
    /// Offset of the value, without the white space before it.
    public var valueStart: UInt16
    /// Length of the value, without the white space after it.
    public var valueCount: UInt16
    /// The kind of the field, if framing or policy use it.
    public var name: KnownField
    /// Whether the field is not forwarded: set by policy, evaluated when the message is written.
    public var isStripped: Bool

    /// Creates an entry.
    public init(nameStart: Int, nameCount: Int, valueStart: Int, valueCount: Int, name: KnownField) {
        self.nameStart = UInt16(truncatingIfNeeded: nameStart)
        self.nameCount = UInt16(truncatingIfNeeded: nameCount)
        self.valueStart = UInt16(truncatingIfNeeded: valueStart)
        self.valueCount = UInt16(truncatingIfNeeded: valueCount)
        self.name = name
        self.isStripped = false
    }

    /// The position of the name.
    public var nameRange: ByteRange { ByteRange(start: Int(nameStart), count: Int(nameCount)) }
    /// The position of the value.
    public var valueRange: ByteRange { ByteRange(start: Int(valueStart), count: Int(valueCount)) }
}

/// Limits of a message head.
public struct HeadLimits: Sendable, Equatable {
    /// The maximum number of bytes of a head, 1,024...65,535.
    public var head: Int
    /// The maximum number of fields.
    public var fields: Int
    /// The maximum number of bytes of a request target.
    public var target: Int

    /// Creates limits. Values outside the range of ``head`` are clamped, because offsets have 16 bits.
    public init(head: Int = 16_384, fields: Int = 100, target: Int = 8_192) {
        self.head = min(max(head, 1_024), 65_535)
        self.fields = fields
        self.target = target
    }
}
