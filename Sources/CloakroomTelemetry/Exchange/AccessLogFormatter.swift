/// Writes one JSON line per finished exchange. What does not change from request to request (names of routes and
/// targets) is rendered when the formatter is made.
struct AccessLogFormatter {
    /// Longer methods and paths are cut here, in bytes.
    static let methodLimit = 32
    static let pathLimit = 1_024

    private var timestamp = TimestampRenderer()
    /// `,"route":"…"`; the last one is that of requests that no route matched.
    private let routes: [[UInt8]]
    /// `,"upstream":"…","upstream_target":"…"`.
    private let upstreams: [[UInt8]]

    init(routes: [String], upstreams: [UpstreamTarget]) {
        self.routes = (routes + [LoopTelemetry.unmatchedRoute]).map { name in
            var fragment = LineBuffer()
            fragment.append(",\"route\":")
            fragment.append(json: name)
            return fragment.bytes
        }
        self.upstreams = upstreams.map { target in
            var fragment = LineBuffer()
            fragment.append(",\"upstream\":")
            fragment.append(json: target.upstream)
            fragment.append(",\"upstream_target\":")
            fragment.append(json: target.authority)
            return fragment.bytes
        }
    }

    /// Appends the line, line feed included.
    mutating func append(
        _ record: borrowing ExchangeRecord, method: Span<UInt8>, path: Span<UInt8>, to line: inout LineBuffer
    ) {
        line.append("{\"time\":\"")
        timestamp.append(record.startWallNanoseconds, to: &line)
        line.append("\",\"logger\":\"access\",\"request_id\":\"")
        line.appendHex(record.requestID)
        if let traceID = record.traceID {
            line.append("\",\"trace_id\":\"")
            line.appendHex(traceID)
        }
        line.append("\",\"peer\":")
        line.append(json: record.peerAddress)
        Self.append(request: record, method: method, to: &line)
        line.append(routes.indices.contains(record.routeIndex) ? routes[record.routeIndex] : routes[routes.count - 1])
        line.append(",\"path\":")
        line.append(json: path.extracting(first: Self.loggedLength(of: path)))
        Self.append(numbers: record, to: &line)
        if upstreams.indices.contains(record.upstreamIndex) { line.append(upstreams[record.upstreamIndex]) }
        Self.append(outcome: record, to: &line)
        line.append("}\n")
    }

    private static func append(
        request record: borrowing ExchangeRecord, method: Span<UInt8>, to line: inout LineBuffer
    ) {
        if record.method == .other {
            line.append(",\"method\":")
            line.append(json: method.extracting(first: methodLimit))
        } else {
            line.append(",\"method\":\"")
            line.append(record.method.label)
            line.append("\"")
        }
    }

    private static func append(numbers record: borrowing ExchangeRecord, to line: inout LineBuffer) {
        line.append(",\"status\":")
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

    private static func append(outcome record: borrowing ExchangeRecord, to line: inout LineBuffer) {
        line.append(",\"decision\":\"")
        line.append(record.decision.label)
        if let session = record.sessionHash {
            line.append("\",\"session\":\"")
            line.appendHex(session)
        }
        line.append("\",\"scheme\":\"")
        line.append(record.scheme.label)
        line.append("\",\"protocol\":\"")
        line.append(record.protocolVersion.label)
        if let version = record.tlsVersion {
            line.append("\",\"tls\":\"")
            line.append(version.label)
        }
        if let error = record.errorType {
            line.append("\",\"error\":\"")
            line.append(error.label)
        }
        line.append("\"")
    }

    /// How much of the path is logged: up to its query, which may hold secrets, and up to the limit.
    private static func loggedLength(of path: Span<UInt8>) -> Int {
        var end = 0
        let limit = min(path.count, pathLimit)
        while end < limit, path[end] != UInt8(ascii: "?") { end += 1 }
        return end
    }
}
