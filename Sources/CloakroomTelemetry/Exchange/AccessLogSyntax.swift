import CloakroomCore
import CloakroomWire

/// How a format writes the fields of an access log line. Generic code is specialized for each format, so that names are
/// constants that are copied as a few words.
protocol AccessLogSyntax {
    /// Begins a field that is a number.
    static func begin(_ name: StaticString, in line: inout LineBuffer)
    /// Begins a field that is text.
    static func beginText(_ name: StaticString, in line: inout LineBuffer)
    /// Appends text chosen by a peer or by the configuration.
    static func append(_ text: Span<UInt8>, to line: inout LineBuffer)
    /// Ends a field that is text.
    static func endText(in line: inout LineBuffer)
}

/// `,"name":"value"`.
enum AccessLogJSON: AccessLogSyntax {
    @inline(__always)
    static func begin(_ name: StaticString, in line: inout LineBuffer) { line.append(",\"", name, "\":") }

    @inline(__always)
    static func beginText(_ name: StaticString, in line: inout LineBuffer) { line.append(",\"", name, "\":\"") }

    static func append(_ text: Span<UInt8>, to line: inout LineBuffer) { line.append(escaped: text) }

    @inline(__always)
    static func endText(in line: inout LineBuffer) { line.append("\"") }
}

/// ` name=value`.
enum AccessLogText: AccessLogSyntax {
    @inline(__always)
    static func begin(_ name: StaticString, in line: inout LineBuffer) { line.append(" ", name, "=") }

    @inline(__always)
    static func beginText(_ name: StaticString, in line: inout LineBuffer) { begin(name, in: &line) }

    static func append(_ text: Span<UInt8>, to line: inout LineBuffer) { line.append(word: text) }

    static func endText(in line: inout LineBuffer) {}
}

/// One field.
extension AccessLogSyntax {
    @inline(__always)
    static func field(_ name: StaticString, _ value: StaticString, to line: inout LineBuffer) {
        beginText(name, in: &line)
        line.append(value)
        endText(in: &line)
    }

    @inline(__always)
    static func field(_ name: StaticString, text: Span<UInt8>, to line: inout LineBuffer) {
        beginText(name, in: &line)
        append(text, to: &line)
        endText(in: &line)
    }

    @inline(__always)
    static func field(_ name: StaticString, hex identifier: ID128, to line: inout LineBuffer) {
        beginText(name, in: &line)
        line.appendHex(identifier)
        endText(in: &line)
    }

    @inline(__always)
    static func field(_ name: StaticString, number: UInt64, to line: inout LineBuffer) {
        begin(name, in: &line)
        line.append(decimal: number)
    }

    @inline(__always)
    static func field(_ name: StaticString, milliseconds nanoseconds: UInt64, to line: inout LineBuffer) {
        begin(name, in: &line)
        line.append(milliseconds: nanoseconds)
    }
}

/// The fields of a record that are adjacent in all formats. Those without a value are omitted. Inlined, because calls
/// took 100 instructions more per line.
extension AccessLogSyntax {
    @inline(__always)
    static func identifiers(of record: borrowing ExchangeRecord, to line: inout LineBuffer) {
        field("request_id", hex: record.requestID, to: &line)
        if let traceID = record.traceID { field("trace_id", hex: traceID, to: &line) }
    }

    @inline(__always)
    static func decision(of record: borrowing ExchangeRecord, to line: inout LineBuffer) {
        field("decision", record.decision.label, to: &line)
        if let reason = record.unauthorizedReason {
            field("unauthorized_reason", text: reason.rawValue.utf8.span, to: &line)
        }
    }

    @inline(__always)
    static func session(of record: borrowing ExchangeRecord, to line: inout LineBuffer) {
        if let credential = record.credential { field("credential", text: credential.rawValue.utf8.span, to: &line) }
        if let proxy = record.decidedFor { field("decided_for", text: proxy.rawValue.utf8.span, to: &line) }
        guard let session = record.sessionHash else { return }
        beginText("session", in: &line)
        line.appendHex(session)
        endText(in: &line)
        if let app = record.app { field("app", text: app.utf8.span, to: &line) }
        guard record.isBound else { return }
        begin("bound", in: &line)
        line.append("true")
    }

    @inline(__always)
    static func error(of record: borrowing ExchangeRecord, to line: inout LineBuffer) {
        if let error = record.errorType { field("error", error.label, to: &line) }
    }

    @inline(__always)
    static func traffic(of record: borrowing ExchangeRecord, to line: inout LineBuffer) {
        field("bytes_in", number: record.bytesReceived, to: &line)
        field("bytes_out", number: record.bytesSent, to: &line)
    }

    @inline(__always)
    static func times(of record: borrowing ExchangeRecord, to line: inout LineBuffer) {
        if let upstream = record.upstreamDurationNanoseconds {
            field("upstream_ms", milliseconds: upstream, to: &line)
        }
        field("overhead_ms", milliseconds: record.overheadNanoseconds, to: &line)
        begin("retries", in: &line)
        line.append(decimal: Int64(record.retries))
    }

    /// To be called if ``ExchangeRecord/hasAttemptFields``.
    static func attempts(of record: borrowing ExchangeRecord, to line: inout LineBuffer) {
        if let peer = record.upstreamPeer {
            beginText("upstream_peer", in: &line)
            line.append(peer)
            endText(in: &line)
        }
        if let reason = record.retryReason { field("retry_reason", text: reason.rawValue.utf8.span, to: &line) }
        if record.queueNanoseconds > 0 { field("queue_ms", milliseconds: record.queueNanoseconds, to: &line) }
        if record.bodyWaitNanoseconds > 0 { field("body_wait_ms", milliseconds: record.bodyWaitNanoseconds, to: &line) }
        if record.identityNanoseconds > 0 { field("identity_ms", milliseconds: record.identityNanoseconds, to: &line) }
        if let version = record.upstreamProtocol { field("upstream_protocol", version.name, to: &line) }
    }

    @inline(__always)
    static func client(host: Span<UInt8>, userAgent: Span<UInt8>, to line: inout LineBuffer) {
        if !host.isEmpty { field("host", text: host, to: &line) }
        if !userAgent.isEmpty { field("user_agent", text: userAgent, to: &line) }
    }
}

extension ExchangeRecord {
    /// Whether it has values that most requests do not have: one check for all of them.
    var hasAttemptFields: Bool {
        retryReason != nil || queueNanoseconds | bodyWaitNanoseconds | identityNanoseconds != 0 || upstreamPeer != nil
            || upstreamProtocol != nil
    }
}
