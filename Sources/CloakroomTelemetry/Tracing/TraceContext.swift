import CloakroomWire
public import Logging
public import Tracing

/// The position of a request in a trace: W3C Trace Context, level 2.
public struct TraceContext: Sendable, Hashable {
    /// The trace; never zero.
    public var traceID: ID128
    /// The parent span of the next operation; never zero.
    public var spanID: UInt64
    /// Bit 0: sampled. Bit 1: the trace id is random. The others are zero.
    public var flags: UInt8

    /// The length in bytes of a `traceparent` of version 00.
    public static let traceparentLength = 55
    static let sampledFlag: UInt8 = 0x01
    static let randomFlag: UInt8 = 0x02

    /// Creates a context; the caller must not pass ids of zero.
    public init(traceID: ID128, spanID: UInt64, flags: UInt8) {
        self.traceID = traceID
        self.spanID = spanID
        self.flags = flags
    }

    /// Whether the caller has recorded this trace.
    public var isSampled: Bool { flags & Self.sampledFlag != 0 }
}

extension TraceContext {
    /// Parses the value of a `traceparent` field (W3C Trace Context, section 3.2). Returns `nil` for invalid values:
    /// upper-case digits, ids of zeros, version `ff`, surrounding blanks, or trailing bytes in version 00. A future
    /// version may have further parts after a dash; only its sampled flag is used.
    public init?(traceparent bytes: Swift.Span<UInt8>) {
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

    /// The field value, version 00.
    public var traceparent: InlineArray<55, UInt8> {
        var bytes = InlineArray<55, UInt8>(repeating: UInt8(ascii: "-"))
        Self.write(hex: 0, digits: 2, at: 0, to: &bytes)
        Self.write(hex: traceID.high, digits: 16, at: 3, to: &bytes)
        Self.write(hex: traceID.low, digits: 16, at: 19, to: &bytes)
        Self.write(hex: spanID, digits: 16, at: 36, to: &bytes)
        Self.write(hex: UInt64(flags), digits: 2, at: 53, to: &bytes)
        return bytes
    }

    /// The field value as text, for carriers of text.
    public var traceparentText: String {
        let bytes = traceparent
        var text = LineBuffer(reserving: bytes.count)
        for index in bytes.indices { text.append(byte: bytes[index]) }
        return text.text
    }

    private static func hex(_ bytes: Swift.Span<UInt8>, _ start: Int, digits: Int) -> UInt64? {
        var value: UInt64 = 0
        for index in start..<(start + digits) {
            // Upper-case digits are invalid.
            guard let digit = Byte.hexadecimal(bytes[index]), !(0x41...0x46).contains(bytes[index]) else { return nil }
            value = value << 4 | digit
        }
        return value
    }

    private static func write(hex value: UInt64, digits: Int, at start: Int, to bytes: inout InlineArray<55, UInt8>) {
        for index in 0..<digits {
            let nibble = UInt8(truncatingIfNeeded: value >> UInt64(4 * (digits - 1 - index))) & 0x0f
            bytes[start + index] = Byte.hexDigit(nibble)
        }
    }
}

private enum TraceContextKey: ServiceContextKey {
    typealias Value = TraceContext
    static var nameOverride: String? { "cloakroom-trace-context" }
}

private enum TraceStateKey: ServiceContextKey {
    typealias Value = String
    static var nameOverride: String? { "cloakroom-trace-state" }
}

extension ServiceContext {
    /// The trace context of this operation.
    public var traceContext: TraceContext? {
        get { self[TraceContextKey.self] }
        set { self[TraceContextKey.self] = newValue }
    }

    /// The vendor-specific trace state: the value of `tracestate`.
    public var traceState: String? {
        get { self[TraceStateKey.self] }
        set { self[TraceStateKey.self] = newValue }
    }
}

extension Logger.MetadataProvider {
    /// Adds `trace_id` and `span_id` to log lines written within a trace.
    public static let traceContext = Logger.MetadataProvider {
        guard let context = ServiceContext.current?.traceContext else { return [:] }
        var span = LineBuffer(reserving: 16)
        span.appendHex(context.spanID)
        return ["trace_id": "\(context.traceID)", "span_id": "\(span.text)"]
    }
}
