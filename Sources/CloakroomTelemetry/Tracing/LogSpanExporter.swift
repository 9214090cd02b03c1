import Tracing

/// Writes every finished span to the log as one JSON line, for use without a collector.
public struct LogSpanExporter: SpanExporter {
    let writer: LogWriter

    /// Renders and submits the line.
    public func export(_ span: FinishedSpan) {
        var line = LineBuffer(reserving: 512)
        Self.append(span, to: &line)
        writer.submit(bytes: line.bytes, lines: 1)
    }

    private static func append(_ span: FinishedSpan, to line: inout LineBuffer) {
        var timestamp = RFC3339Renderer()
        line.append("{\"time\":\"")
        timestamp.append(Int64(clamping: span.startNanoseconds), to: &line)
        line.append("\",\"logger\":\"span\",\"name\":")
        line.append(json: span.name)
        line.append(",\"kind\":")
        line.append(json: "\(span.kind)")
        line.append(",\"trace_id\":\"")
        line.appendHex(span.context.traceID)
        line.append("\",\"span_id\":\"")
        line.appendHex(span.context.spanID)
        if let parent = span.parentSpanID {
            line.append("\",\"parent_span_id\":\"")
            line.appendHex(parent)
        }
        line.append("\",\"duration_ms\":")
        let duration = span.endNanoseconds > span.startNanoseconds ? span.endNanoseconds - span.startNanoseconds : 0
        line.append(milliseconds: duration)
        if let status = span.status {
            line.append(status.code == .error ? ",\"status\":\"error\"" : ",\"status\":\"ok\"")
        }
        append(span.attributes, to: &line)
        append(",\"events\":", span.events.map(\.name), to: &line)
        append(",\"links\":", span.links.map(\.traceparentText), to: &line)
        line.append("}\n")
    }

    private static func append(_ attributes: SpanAttributes, to line: inout LineBuffer) {
        guard !attributes.isEmpty else { return }
        line.append(",\"attributes\":{")
        for (index, (name, value)) in attributes.sorted.enumerated() {
            if index > 0 { line.append(",") }
            line.append(json: name)
            line.append(":")
            append(value, to: &line)
        }
        line.append("}")
    }

    private static func append(_ value: SpanAttribute, to line: inout LineBuffer) {
        switch value {
        case .int32(let number): line.append(decimal: Int64(number))
        case .int64(let number): line.append(decimal: number)
        case .double(let number): line.append(json: number)
        case .bool(let flag): line.append(flag ? "true" : "false")
        case .string(let text): line.append(json: text)
        case .stringConvertible(let value): line.append(json: value.description)
        case .stringArray(let texts): append(list: texts, to: &line)
        case .int32Array(let numbers): append(list: numbers.map(\.description), to: &line)
        case .int64Array(let numbers): append(list: numbers.map(\.description), to: &line)
        case .doubleArray(let numbers): append(list: numbers.map(\.description), to: &line)
        case .boolArray(let flags): append(list: flags.map(\.description), to: &line)
        case .stringConvertibleArray(let values): append(list: values.map(\.description), to: &line)
        default: line.append("null")
        }
    }

    /// Appends a member unless its list is empty.
    private static func append(_ member: StaticString, _ texts: [String], to line: inout LineBuffer) {
        guard !texts.isEmpty else { return }
        line.append(member)
        append(list: texts, to: &line)
    }

    private static func append(list texts: [String], to line: inout LineBuffer) {
        line.append("[")
        for (index, text) in texts.enumerated() {
            if index > 0 { line.append(",") }
            line.append(json: text)
        }
        line.append("]")
    }
}
