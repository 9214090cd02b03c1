public import CloakroomCore
import FoundationEssentials
import Glibc
import Tracing

extension SpanAttributes {
    /// By name.
    var sorted: [(name: String, value: SpanAttribute)] {
        var sorted: [(name: String, value: SpanAttribute)] = []
        forEach { sorted.append(($0, $1)) }
        return sorted.sorted { $0.name < $1.name }
    }
}

extension ProtobufWriter {
    /// Writes attributes as repeated `KeyValue` (opentelemetry-proto, common.proto), sorted by name.
    mutating func attributes(_ field: UInt64, _ attributes: SpanAttributes) {
        for (name, value) in attributes.sorted { attribute(field, name, value) }
    }

    /// One `KeyValue`.
    mutating func attribute(_ field: UInt64, _ name: String, _ value: SpanAttribute) {
        message(field) { pair in
            pair.string(1, name)
            pair.message(2) { $0.any(value) }
        }
    }

    /// Writes the field of an `AnyValue`, even if it is empty or zero; without it there would be no value.
    private mutating func any(_ value: SpanAttribute) {
        switch value {
        case .int32(let number): any(Int64(number))
        case .int64(let number): any(number)
        case .double(let number): any(number)
        case .bool(let flag): any(flag)
        case .string(let text): any(text)
        case .stringConvertible(let value): any(value.description)
        case .int32Array(let numbers): array(numbers) { $0.any(Int64($1)) }
        case .int64Array(let numbers): array(numbers) { $0.any($1) }
        case .doubleArray(let numbers): array(numbers) { $0.any($1) }
        case .boolArray(let flags): array(flags) { $0.any($1) }
        case .stringArray(let texts): array(texts) { $0.any($1) }
        case .stringConvertibleArray(let values): array(values) { $0.any($1.description) }
        // The remaining case cannot be named in the API and does not occur in attributes.
        default: break
        }
    }

    private mutating func any(_ text: String) { string(1, text) }
    private mutating func any(_ flag: Bool) { varint(2, flag ? 1 : 0) }
    private mutating func any(_ number: Int64) { varint(3, UInt64(bitPattern: number)) }
    private mutating func any(_ number: Double) { fixed64(4, number.bitPattern) }

    private mutating func array<Element>(
        _ elements: [Element], _ write: (inout ProtobufWriter, Element) -> Void
    ) {
        message(5) { array in
            for element in elements {
                array.message(1) { write(&$0, element) }
            }
        }
    }
}

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

/// The body of one export: an `ExportTraceServiceRequest` (opentelemetry-proto, trace_service.proto).
enum OTLPRequest {
    /// Spans of one process, all of one scope.
    static func body(_ spans: [FinishedSpan], resource: OTelResource) -> [UInt8] {
        var request = ProtobufWriter()
        request.message(1) { resourceSpans in
            resourceSpans.message(1) { message in
                for (name, value) in resource.attributes { message.attribute(1, name, value) }
            }
            resourceSpans.message(2) { scopeSpans in
                scopeSpans.message(1) { scope in
                    scope.string(1, "cloakroom")
                    scope.string(2, resource.version)
                }
                for span in spans { scopeSpans.span(2, span) }
            }
        }
        return request.bytes
    }
}

/// The body of a collector's response: an `ExportTraceServiceResponse`.
enum OTLPResponse {
    /// The number of spans of an accepted batch that the collector rejected; 0 if not specified.
    static func rejectedSpans(_ body: [UInt8]) -> Int {
        var response = ProtobufReader(body[...])
        while let (field, value) = response.next() {
            guard field == 1, case .bytes(let bytes) = value else { continue }
            var partialSuccess = ProtobufReader(bytes)
            while let (field, value) = partialSuccess.next() {
                if field == 1, case .number(let count) = value { return max(0, Int(Int64(bitPattern: count))) }
            }
        }
        return 0
    }
}

/// The OpenTelemetry resource: the attributes common to all spans of this process.
public struct OTelResource: Sendable {
    /// Names and values; names are unique.
    let attributes: [(name: String, value: SpanAttribute)]
    /// The version of the gateway, also used for the instrumentation scope.
    let version: String

    /// Describes this process.
    ///
    /// - Parameters:
    ///   - serviceName: `service.name`.
    ///   - version: `service.version`.
    ///   - attributes: Further attributes. They override detected ones such as `host.name`, but not the service name
    ///     and the SDK attributes. The last of two with one name wins.
    public init(serviceName: String, version: String, attributes: [NamedValue<String>] = []) {
        let found: [(String, SpanAttribute)] = [
            ("service.version", .string(version)),
            ("service.instance.id", .string(UUID().uuidString.lowercased())),
            ("host.name", .string(Self.hostName)),
            ("process.pid", .int64(Int64(getpid()))),
        ]
        let fixed: [(String, SpanAttribute)] = [
            ("service.name", .string(serviceName)),
            ("telemetry.sdk.name", .string("cloakroom")),
            ("telemetry.sdk.language", .string("swift")),
            ("telemetry.sdk.version", .string(version)),
        ]
        let given = attributes.map { ($0.name, SpanAttribute.string($0.value)) }
        var values: [String: SpanAttribute] = [:]
        for (name, value) in found + given + fixed { values[name] = value }
        self.attributes = values.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        self.version = version
    }

    private static var hostName: String { ProcessInfo.processInfo.hostName }
}

/// Parsers of data from collectors, exposed for fuzzing.
package enum TelemetryWire {
    /// The number of spans that a collector's response rejects.
    package static func rejectedSpans(_ body: [UInt8]) -> Int {
        OTLPResponse.rejectedSpans(body)
    }

    /// The delay given by a `Retry-After` field; `nil` if it is invalid.
    package static func retryAfter(_ value: String, now: WallTime) -> Duration? {
        RetryAfter.read(value, now: now)
    }
}
