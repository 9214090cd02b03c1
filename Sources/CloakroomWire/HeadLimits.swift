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
