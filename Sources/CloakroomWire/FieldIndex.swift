/// One header field: where its name and value stand in the head, what it is, and whether it is passed on.
public struct FieldSlice: Sendable, Equatable {
    /// Offset of the name, which begins the line.
    public var nameStart: UInt16
    /// Length of the name.
    public var nameCount: UInt16
    /// Offset of the value, without the white space before it.
    public var valueStart: UInt16
    /// Length of the value, without the white space behind it.
    public var valueCount: UInt16
    /// What the field is, if it is one that the gateway has to do with.
    public var name: KnownField
    /// Whether the field ends here: set by policy, heeded by whoever writes the message again.
    public var isStripped: Bool

    /// Makes an entry.
    public init(nameStart: Int, nameCount: Int, valueStart: Int, valueCount: Int, name: KnownField) {
        self.nameStart = UInt16(truncatingIfNeeded: nameStart)
        self.nameCount = UInt16(truncatingIfNeeded: nameCount)
        self.valueStart = UInt16(truncatingIfNeeded: valueStart)
        self.valueCount = UInt16(truncatingIfNeeded: valueCount)
        self.name = name
        self.isStripped = false
    }

    /// Where the name stands.
    public var nameRange: ByteRange { ByteRange(start: Int(nameStart), count: Int(nameCount)) }
    /// Where the value stands.
    public var valueRange: ByteRange { ByteRange(start: Int(valueStart), count: Int(valueCount)) }
}
