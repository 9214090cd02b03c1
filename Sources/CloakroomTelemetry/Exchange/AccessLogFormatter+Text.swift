import CloakroomCore
import CloakroomWire

/// The access log line for a terminal: time, level and logger as in ``GatewayLogHandler``, then status, method, duration
/// and path in columns, then the other fields named as in JSON.
extension AccessLogFormatter {
    /// The column widths; longer values widen their line.
    private static let methodWidth = 7
    private static let durationWidth = 10

    /// ` route=…`.
    static func textFragment(route: String) -> [UInt8] {
        var fragment = LineBuffer()
        fragment.append(" route=")
        fragment.append(word: route.utf8.span)
        return fragment.bytes
    }

    /// ` upstream=… upstream_target=…`.
    static func textFragment(upstream target: UpstreamTarget) -> [UInt8] {
        var fragment = LineBuffer()
        fragment.append(" upstream=")
        fragment.append(word: target.upstream.utf8.span)
        fragment.append(" upstream_target=")
        fragment.append(word: target.authority.utf8.span)
        return fragment.bytes
    }

    /// ` scheme=… protocol=…` and, with TLS, ` tls=…`.
    static func textFragment(
        scheme: URIScheme, version: HTTPProtocolVersion, tls: TLSVersion?
    ) -> [UInt8] {
        var fragment = LineBuffer()
        fragment.append(" scheme=")
        fragment.append(scheme.name)
        fragment.append(" protocol=")
        fragment.append(version.name)
        if let tls {
            fragment.append(" tls=")
            fragment.append(plain: tls.rawValue)
        }
        return fragment.bytes
    }

    /// Everything after the time.
    func appendText(
        _ record: borrowing ExchangeRecord, method: Span<UInt8>, path: Span<UInt8>, host: Span<UInt8>,
        userAgent: Span<UInt8>, to line: inout LineBuffer
    ) {
        line.append(" INFO     access: ")
        line.append(padded: Int(record.status), digits: 3)
        line.append(" ")
        let methodStart = line.count
        if record.method == .other {
            line.append(word: method)
        } else {
            line.append(record.method.label)
        }
        line.pad(from: methodStart, to: Self.methodWidth)
        Self.append(alignedMilliseconds: record.durationNanoseconds, to: &line)
        line.append("ms ")
        line.append(word: path)
        line.append(route(record.routeIndex))
        line.append(" decision=")
        line.append(record.decision.label)
        if let reason = record.unauthorizedReason {
            line.append(" unauthorized_reason=")
            line.append(word: reason.rawValue.utf8.span)
        }
        if let error = record.errorType {
            line.append(" error=")
            line.append(error.label)
        }
        if let upstream = upstream(record.upstreamIndex) { line.append(upstream) }
        if Self.hasAttemptFields(record) { Self.append(textAttempts: record, to: &line) }
        Self.append(textNumbers: record, to: &line)
        line.append(" peer=")
        line.append(word: record.peerAddress.utf8.span)
        line.append(transport(record))
        Self.append(textNames: record, to: &line)
        if !host.isEmpty {
            line.append(" host=")
            line.append(word: host)
        }
        if !userAgent.isEmpty {
            line.append(" user_agent=")
            line.append(word: userAgent)
        }
        line.append("\n")
    }

    private static func append(textNumbers record: borrowing ExchangeRecord, to line: inout LineBuffer) {
        if let upstream = record.upstreamDurationNanoseconds {
            line.append(" upstream_ms=")
            line.append(milliseconds: upstream)
        }
        line.append(" overhead_ms=")
        line.append(milliseconds: record.overheadNanoseconds)
        line.append(" retries=")
        line.append(decimal: Int64(record.retries))
        line.append(" bytes_in=")
        line.append(decimal: record.bytesReceived)
        line.append(" bytes_out=")
        line.append(decimal: record.bytesSent)
    }

    private static func append(textNames record: borrowing ExchangeRecord, to line: inout LineBuffer) {
        if let session = record.sessionHash {
            line.append(" session=")
            line.appendHex(session)
        }
        line.append(" request_id=")
        line.appendHex(record.requestID)
        if let traceID = record.traceID {
            line.append(" trace_id=")
            line.appendHex(traceID)
        }
    }

    /// Right-aligned in its column.
    private static func append(alignedMilliseconds nanoseconds: UInt64, to line: inout LineBuffer) {
        var whole = nanoseconds / 1_000_000
        // One digit before the decimal point and four characters after it.
        var width = 5
        while whole >= 10 {
            whole /= 10
            width += 1
        }
        while width < durationWidth {
            line.append(" ")
            width += 1
        }
        line.append(milliseconds: nanoseconds)
    }

    private static func append(textAttempts record: borrowing ExchangeRecord, to line: inout LineBuffer) {
        if let peer = record.upstreamPeer {
            line.append(" upstream_peer=")
            line.append(peer)
        }
        if let reason = record.retryReason {
            line.append(" retry_reason=")
            line.append(escaped: reason.rawValue.utf8.span)
        }
        if record.queueNanoseconds > 0 {
            line.append(" queue_ms=")
            line.append(milliseconds: record.queueNanoseconds)
        }
        if record.bodyWaitNanoseconds > 0 {
            line.append(" body_wait_ms=")
            line.append(milliseconds: record.bodyWaitNanoseconds)
        }
        if record.identityNanoseconds > 0 {
            line.append(" identity_ms=")
            line.append(milliseconds: record.identityNanoseconds)
        }
        if let version = record.upstreamProtocol {
            line.append(" upstream_protocol=")
            line.append(version.name)
        }
    }
}
