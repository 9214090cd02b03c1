public import CloakroomWire
import NIOCore

/// The trace context fields of a request whose peer is trusted (W3C Trace Context §3.2, §3.3).
public struct TraceContextFields: Sendable, Equatable {
    /// The position of the only `traceparent`; `nil` if there is none, or if there are several: then all are ignored,
    /// including `tracestate`.
    public private(set) var parent: ByteRange?
    /// The number of `tracestate` fields; 0 without a parent.
    public private(set) var stateCount = 0

    /// Creates an empty trace context.
    public init() {}

    /// Parses the fields. Called before the header policy marks them.
    public static func read(_ head: borrowing RequestHead) -> TraceContextFields {
        var fields = TraceContextFields()
        var parents = 0
        for field in head.fields {
            if field.name == .traceparent {
                parents += 1
                fields.parent = field.valueRange
            } else if field.name == .tracestate, !field.valueRange.isEmpty {
                fields.stateCount += 1
            }
        }
        return parents == 1 ? fields : TraceContextFields()
    }

    /// Writes all `tracestate` fields of a request as one line, in their order (W3C Trace Context §3.3.1); nothing if
    /// there is none.
    public func writeTracestate(of head: borrowing RequestHead, into writer: inout HeadWriter) {
        guard stateCount > 0 else { return }
        let bytes = head.bytes.readableBytesUInt8Span
        var isFirst = true
        for field in head.fields where field.name == .tracestate && !field.valueRange.isEmpty {
            if isFirst { writer.append("tracestate: ") } else { writer.append(",") }
            isFirst = false
            writer.append(bytes.bytes, field.valueRange)
        }
        writer.append("\r\n")
    }
}
