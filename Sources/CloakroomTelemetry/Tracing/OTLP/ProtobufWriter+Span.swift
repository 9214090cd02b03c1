import CloakroomCore
import Tracing

extension ProtobufWriter {
    /// Bit 8 of the flags: bit 9 is valid, which indicates a remote parent.
    private static let knowsWhetherRemote: UInt32 = 0x100
    private static let isRemote: UInt32 = 0x200

    /// One `Span` (opentelemetry-proto, trace.proto).
    mutating func span(_ field: UInt64, _ span: FinishedSpan) {
        message(field) { message in
            message.ids(span.context)
            if let state = span.traceState { message.string(3, state) }
            if let parent = span.parentSpanID { message.bytes(4, parent.bigEndianBytes) }
            message.string(5, span.name)
            message.varint(6, Self.number(of: span.kind))
            message.fixed64(7, span.startNanoseconds)
            // If the clock was set back, the span must not end before it starts.
            message.fixed64(8, max(span.startNanoseconds, span.endNanoseconds))
            message.attributes(9, span.attributes)
            for event in span.events { message.event(event) }
            if span.droppedEvents > 0 { message.varint(12, UInt64(span.droppedEvents)) }
            for link in span.links { message.link(link) }
            if span.droppedLinks > 0 { message.varint(14, UInt64(span.droppedLinks)) }
            if let status = span.status {
                // Without the message, which may come from an error and contain sensitive data.
                message.message(15) { $0.varint(3, status.code == .ok ? 1 : 2) }
            }
            let remote = span.hasRemoteParent ? Self.isRemote : 0
            message.fixed32(16, UInt32(span.context.flags) | Self.knowsWhetherRemote | remote)
        }
    }

    private mutating func event(_ event: SpanEvent) {
        message(11) { message in
            message.fixed64(1, event.nanosecondsSinceEpoch)
            message.string(2, event.name)
            message.attributes(3, event.attributes)
        }
    }

    private mutating func link(_ link: TraceContext) {
        message(13) { message in
            message.ids(link)
            message.fixed32(6, UInt32(link.flags))
        }
    }

    private mutating func ids(_ context: TraceContext) {
        bytes(1, context.traceID.high.bigEndianBytes + context.traceID.low.bigEndianBytes)
        bytes(2, context.spanID.bigEndianBytes)
    }

    private static func number(of kind: SpanKind) -> UInt64 {
        switch kind {
        case .internal: 1
        case .server: 2
        case .client: 3
        case .producer: 4
        case .consumer: 5
        }
    }
}
