/// How large a head may be.
public struct HeadLimits: Sendable, Equatable {
    /// The most bytes of a head, 1,024...65,535.
    public var head: Int
    /// The most fields.
    public var fields: Int
    /// The most bytes of a request target.
    public var target: Int

    /// Makes limits. What lies outside the range of ``head`` is brought into it, for offsets have 16 bits.
    public init(head: Int = 16_384, fields: Int = 100, target: Int = 8_192) {
        self.head = min(max(head, 1_024), 65_535)
        self.fields = fields
        self.target = target
    }
}
