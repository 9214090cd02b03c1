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
