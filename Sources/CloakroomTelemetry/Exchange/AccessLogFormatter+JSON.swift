import CloakroomCore
import CloakroomWire

/// The access log line as a JSON object.
extension AccessLogFormatter {
    /// `,"route":"…","path":"`.
    static func jsonFragment(route: String) -> [UInt8] {
        var fragment = LineBuffer()
        fragment.append(",\"route\":")
        fragment.append(json: route)
        fragment.append(",\"path\":\"")
        return fragment.bytes
    }

    /// `,"upstream":"…","upstream_target":"…"`.
    static func jsonFragment(upstream target: UpstreamTarget) -> [UInt8] {
        var fragment = LineBuffer()
        fragment.append(",\"upstream\":")
        fragment.append(json: target.upstream)
        fragment.append(",\"upstream_target\":")
        fragment.append(json: target.authority)
        return fragment.bytes
    }

    /// `","scheme":"…","protocol":"…"` and, with TLS, `,"tls":"…"`, without the last quotation mark.
    static func jsonFragment(
        scheme: URIScheme, version: HTTPProtocolVersion, tls: TLSVersion?
    ) -> [UInt8] {
        var fragment = LineBuffer()
        fragment.append("\",\"scheme\":\"")
        fragment.append(scheme.name)
        fragment.append("\",\"protocol\":\"")
        fragment.append(version.name)
        if let tls {
            fragment.append("\",\"tls\":\"")
            fragment.append(plain: tls.rawValue)
        }
        return fragment.bytes
    }

    /// Everything after the time.
    func appendJSON(
        _ record: borrowing ExchangeRecord, method: Span<UInt8>, path: Span<UInt8>, host: Span<UInt8>,
        userAgent: Span<UInt8>, to line: inout LineBuffer
    ) {
        line.append("\",\"level\":\"info\",\"logger\":\"access\",\"request_id\":\"")
        line.appendHex(record.requestID)
        if let traceID = record.traceID {
            line.append("\",\"trace_id\":\"")
            line.appendHex(traceID)
        }
        line.append("\",\"peer\":\"")
        line.append(escaped: record.peerAddress.utf8.span)
        line.append("\",\"method\":\"")
        if record.method == .other {
            line.append(escaped: method)
        } else {
            line.append(record.method.label)
        }
        line.append("\"")
        line.append(route(record.routeIndex))
        line.append(escaped: path)
        Self.append(numbers: record, to: &line)
        if let upstream = upstream(record.upstreamIndex) { line.append(upstream) }
        if Self.hasAttemptFields(record) { Self.append(attempts: record, to: &line) }
        line.append(",\"decision\":\"")
        line.append(record.decision.label)
        if let reason = record.unauthorizedReason {
            line.append("\",\"unauthorized_reason\":\"")
            line.append(escaped: reason.rawValue.utf8.span)
        }
        if let session = record.sessionHash {
            line.append("\",\"session\":\"")
            line.appendHex(session)
        }
        line.append(transport(record))
        if let error = record.errorType {
            line.append("\",\"error\":\"")
            line.append(error.label)
        }
        if !host.isEmpty {
            line.append("\",\"host\":\"")
            line.append(escaped: host)
        }
        if !userAgent.isEmpty {
            line.append("\",\"user_agent\":\"")
            line.append(escaped: userAgent)
        }
        line.append("\"}\n")
    }

    private static func append(numbers record: borrowing ExchangeRecord, to line: inout LineBuffer) {
        line.append("\",\"status\":")
        line.append(decimal: UInt64(record.status))
        line.append(",\"bytes_in\":")
        line.append(decimal: record.bytesReceived)
        line.append(",\"bytes_out\":")
        line.append(decimal: record.bytesSent)
        line.append(",\"duration_ms\":")
        line.append(milliseconds: record.durationNanoseconds)
        if let upstream = record.upstreamDurationNanoseconds {
            line.append(",\"upstream_ms\":")
            line.append(milliseconds: upstream)
        }
        line.append(",\"overhead_ms\":")
        line.append(milliseconds: record.overheadNanoseconds)
        line.append(",\"retries\":")
        line.append(decimal: Int64(record.retries))
    }

    private static func append(attempts record: borrowing ExchangeRecord, to line: inout LineBuffer) {
        if let peer = record.upstreamPeer {
            line.append(",\"upstream_peer\":\"")
            line.append(peer)
            line.append("\"")
        }
        if let reason = record.retryReason {
            line.append(",\"retry_reason\":\"")
            line.append(escaped: reason.rawValue.utf8.span)
            line.append("\"")
        }
        if record.queueNanoseconds > 0 {
            line.append(",\"queue_ms\":")
            line.append(milliseconds: record.queueNanoseconds)
        }
        if record.bodyWaitNanoseconds > 0 {
            line.append(",\"body_wait_ms\":")
            line.append(milliseconds: record.bodyWaitNanoseconds)
        }
        if record.identityNanoseconds > 0 {
            line.append(",\"identity_ms\":")
            line.append(milliseconds: record.identityNanoseconds)
        }
        if let version = record.upstreamProtocol {
            line.append(",\"upstream_protocol\":\"")
            line.append(version.name)
            line.append("\"")
        }
    }
}
