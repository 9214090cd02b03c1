/// A 128-bit identifier, written as 32 lower-case hexadecimal digits: a request id or a trace id.
public struct ID128: Sendable, Hashable {
    /// The first sixteen digits.
    public var high: UInt64
    /// The last sixteen digits.
    public var low: UInt64

    /// Creates an identifier from its two halves.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// W3C Trace Context calls an identifier of zeros invalid.
    public var isZero: Bool { high == 0 && low == 0 }
}

extension ID128: CustomStringConvertible {
    /// The 32 digits.
    public var description: String {
        var line = LineBuffer(reserving: 32)
        line.appendHex(self)
        return line.text
    }
}
