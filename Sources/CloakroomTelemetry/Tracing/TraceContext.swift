/// Where a request stands in a trace: W3C Trace Context, level 2.
public struct TraceContext: Sendable, Hashable {
    /// The trace; never zero.
    public var traceID: ID128
    /// The span that is the parent of what follows; never zero.
    public var spanID: UInt64
    /// Bit 0: sampled. Bit 1: the trace id is random. The others are zero.
    public var flags: UInt8

    /// How many bytes a `traceparent` of version 00 has.
    public static let traceparentLength = 55
    static let sampledFlag: UInt8 = 0x01
    static let randomFlag: UInt8 = 0x02

    /// Puts a context together; ids of zero are the caller's to avoid.
    public init(traceID: ID128, spanID: UInt64, flags: UInt8) {
        self.traceID = traceID
        self.spanID = spanID
        self.flags = flags
    }

    /// Whether the one who asks has recorded this trace.
    public var isSampled: Bool { flags & Self.sampledFlag != 0 }
}

extension TraceContext {
    /// Reads a `traceparent` field's value (W3C Trace Context, section 3.2). `nil` for anything that is not exactly right:
    /// upper-case digits, ids of zeros, version `ff`, surrounding blanks, or trailing bytes on version 00. A future
    /// version may go on after a dash, and only its sampled flag is understood.
    public init?(traceparent bytes: Span<UInt8>) {
        guard bytes.count >= Self.traceparentLength,
            bytes[2] == UInt8(ascii: "-"), bytes[35] == UInt8(ascii: "-"), bytes[52] == UInt8(ascii: "-"),
            let version = Self.hex(bytes, 0, digits: 2), version != 0xff,
            let high = Self.hex(bytes, 3, digits: 16), let low = Self.hex(bytes, 19, digits: 16),
            let spanID = Self.hex(bytes, 36, digits: 16), let flags = Self.hex(bytes, 53, digits: 2)
        else { return nil }
        if bytes.count > Self.traceparentLength {
            guard version != 0, bytes[Self.traceparentLength] == UInt8(ascii: "-") else { return nil }
        }
        let traceID = ID128(high: high, low: low)
        guard !traceID.isZero, spanID != 0 else { return nil }
        let known = version == 0 ? Self.sampledFlag | Self.randomFlag : Self.sampledFlag
        self.init(traceID: traceID, spanID: spanID, flags: UInt8(truncatingIfNeeded: flags) & known)
    }

    /// The field's value, version 00.
    public var traceparent: InlineArray<55, UInt8> {
        var bytes = InlineArray<55, UInt8>(repeating: UInt8(ascii: "-"))
        Self.write(hex: 0, digits: 2, at: 0, to: &bytes)
        Self.write(hex: traceID.high, digits: 16, at: 3, to: &bytes)
        Self.write(hex: traceID.low, digits: 16, at: 19, to: &bytes)
        Self.write(hex: spanID, digits: 16, at: 36, to: &bytes)
        Self.write(hex: UInt64(flags), digits: 2, at: 53, to: &bytes)
        return bytes
    }

    /// The field's value as text, for carriers that hold text.
    public var traceparentText: String {
        let bytes = traceparent
        var text = LineBuffer(reserving: bytes.count)
        for index in bytes.indices { text.append(byte: bytes[index]) }
        return text.text
    }

    private static func hex(_ bytes: Span<UInt8>, _ start: Int, digits: Int) -> UInt64? {
        var value: UInt64 = 0
        for index in start..<(start + digits) {
            guard let digit = Hex.value(bytes[index]) else { return nil }
            value = value << 4 | UInt64(digit)
        }
        return value
    }

    private static func write(hex value: UInt64, digits: Int, at start: Int, to bytes: inout InlineArray<55, UInt8>) {
        for index in 0..<digits {
            let nibble = UInt8(truncatingIfNeeded: value >> UInt64(4 * (digits - 1 - index))) & 0x0f
            bytes[start + index] = Hex.digit(nibble)
        }
    }
}
