import CloakroomCore
import CloakroomWire

/// Formats one line per finished exchange, as JSON or as text. Constant parts (names of routes and targets) are
/// rendered once.
struct AccessLogFormatter {
    /// The maximum length of a method in bytes; longer ones are truncated.
    static let methodLimit = 32
    /// The maximum length of a host in bytes: that of a host name with a port.
    static let hostLimit = 259
    /// The maximum length of a user agent in bytes; longer ones are truncated at the start of a character.
    static let userAgentLimit = 256

    private var timestamp = RFC3339Renderer()
    private let format: LoggingConfiguration.Format
    /// The fragment of each route; the last one is for unmatched requests.
    private let routes: [[UInt8]]
    /// The fragment of each target.
    private let upstreams: [[UInt8]]
    /// The fragment of each rate limit.
    private let limits: [[UInt8]]
    /// The fragment of each listener; empty if they are not logged.
    private let listeners: [[UInt8]]
    /// The fragment of each transport, by scheme, HTTP version and TLS version.
    private let transports: [[UInt8]]

    init(
        routes: [String], upstreams: [UpstreamTarget], limits: [String] = [], listeners: [String] = [],
        format: LoggingConfiguration.Format = .json
    ) {
        self.format = format
        let syntax: any AccessLogSyntax.Type = format == .json ? AccessLogJSON.self : AccessLogText.self
        self.routes = (routes + [LoopTelemetry.unmatchedRoute]).map { route in
            Self.fragment { syntax.field("route", text: route.utf8.span, to: &$0) }
        }
        self.upstreams = upstreams.map { target in
            Self.fragment {
                syntax.field("upstream", text: target.upstream.utf8.span, to: &$0)
                syntax.field("upstream_target", text: target.authority.utf8.span, to: &$0)
            }
        }
        self.limits = limits.map { name in
            Self.fragment { syntax.field("limit", text: name.utf8.span, to: &$0) }
        }
        self.listeners = listeners.map { address in
            Self.fragment { syntax.field("listener", text: address.utf8.span, to: &$0) }
        }
        transports = URIScheme.allCases.flatMap { scheme in
            HTTPProtocolVersion.allCases.flatMap { version in
                ([nil] + TLSVersion.allCases.map(Optional.some)).map { tls in
                    Self.fragment {
                        syntax.field("scheme", scheme.name, to: &$0)
                        syntax.field("protocol", version.name, to: &$0)
                        if let tls { syntax.field("tls", text: tls.rawValue.utf8.span, to: &$0) }
                    }
                }
            }
        }
    }

    private static func fragment(_ write: (inout LineBuffer) -> Void) -> [UInt8] {
        var line = LineBuffer()
        write(&line)
        return line.bytes
    }

    /// Appends the line, line feed included.
    mutating func append(
        _ record: borrowing ExchangeRecord, method: Span<UInt8>, path: Span<UInt8>, host: Span<UInt8> = Span(),
        userAgent: Span<UInt8> = Span(), sentPath: Span<UInt8> = Span(), to line: inout LineBuffer
    ) {
        let path = path.extracting(first: ExchangeRecord.loggablePathLength(ofPath: path))
        let method = method.extracting(first: Self.methodLimit)
        let host = host.extracting(first: Self.hostLimit)
        let userAgent = userAgent.extracting(first: Self.characterPrefix(of: userAgent, limit: Self.userAgentLimit))
        switch format {
        case .json:
            line.append("{\"time\":\"")
            timestamp.append(record.startWallNanoseconds, to: &line)
            appendJSON(
                record, method: method, path: path, sentPath: sentPath, host: host, userAgent: userAgent, to: &line)
        case .text:
            timestamp.append(record.startWallNanoseconds, to: &line)
            appendText(
                record, method: method, path: path, sentPath: sentPath, host: host, userAgent: userAgent, to: &line)
        }
    }

    /// Everything after the time.
    private func appendJSON(
        _ record: borrowing ExchangeRecord, method: Span<UInt8>, path: Span<UInt8>, sentPath: Span<UInt8>,
        host: Span<UInt8>, userAgent: Span<UInt8>, to line: inout LineBuffer
    ) {
        typealias JSON = AccessLogJSON
        line.append("\",\"level\":\"info\",\"logger\":\"access\"")
        JSON.identifiers(of: record, to: &line)
        JSON.field("peer", text: record.peerAddress.utf8.span, to: &line)
        if record.method == .other {
            JSON.field("method", text: method, to: &line)
        } else {
            JSON.field("method", record.method.label, to: &line)
        }
        line.append(route(record.routeIndex))
        JSON.field("path", text: path, to: &line)
        if !sentPath.isEmpty {
            JSON.field("sent_path", text: sentPath.extracting(first: ExchangeRecord.pathLimit), to: &line)
        }
        JSON.field("status", number: UInt64(record.status), to: &line)
        JSON.traffic(of: record, to: &line)
        JSON.field("duration_ms", milliseconds: record.durationNanoseconds, to: &line)
        JSON.times(of: record, to: &line)
        if let upstream = upstream(record.upstreamIndex) { line.append(upstream) }
        if record.hasAttemptFields { JSON.attempts(of: record, to: &line) }
        JSON.decision(of: record, to: &line)
        if let limit = limit(record.limitIndex) { line.append(limit) }
        JSON.session(of: record, to: &line)
        line.append(transport(record))
        if let listener = listener(record.listenerIndex) { line.append(listener) }
        JSON.error(of: record, to: &line)
        JSON.client(host: host, userAgent: userAgent, to: &line)
        line.append("}\n")
    }

    /// Everything after the time: level and logger as in ``GatewayLogHandler``, then status, method, duration and path in
    /// columns, then the other fields named as in JSON. Longer values widen their line.
    private func appendText(
        _ record: borrowing ExchangeRecord, method: Span<UInt8>, path: Span<UInt8>, sentPath: Span<UInt8>,
        host: Span<UInt8>, userAgent: Span<UInt8>, to line: inout LineBuffer
    ) {
        typealias Text = AccessLogText
        line.append(" INFO     access: ")
        line.append(padded: Int(record.status), digits: 3)
        line.append(" ")
        let methodStart = line.count
        if record.method == .other {
            line.append(word: method)
        } else {
            line.append(record.method.label)
        }
        line.pad(from: methodStart, to: 7)
        Self.append(alignedMilliseconds: record.durationNanoseconds, width: 10, to: &line)
        line.append("ms ")
        line.append(word: path)
        line.append(route(record.routeIndex))
        if !sentPath.isEmpty {
            Text.field("sent_path", text: sentPath.extracting(first: ExchangeRecord.pathLimit), to: &line)
        }
        Text.decision(of: record, to: &line)
        if let limit = limit(record.limitIndex) { line.append(limit) }
        Text.error(of: record, to: &line)
        if let upstream = upstream(record.upstreamIndex) { line.append(upstream) }
        if record.hasAttemptFields { Text.attempts(of: record, to: &line) }
        Text.times(of: record, to: &line)
        Text.traffic(of: record, to: &line)
        Text.field("peer", text: record.peerAddress.utf8.span, to: &line)
        line.append(transport(record))
        if let listener = listener(record.listenerIndex) { line.append(listener) }
        Text.session(of: record, to: &line)
        Text.identifiers(of: record, to: &line)
        Text.client(host: host, userAgent: userAgent, to: &line)
        line.append("\n")
    }

    private static func append(alignedMilliseconds nanoseconds: UInt64, width: Int, to line: inout LineBuffer) {
        var whole = nanoseconds / 1_000_000
        // One digit before the decimal point and four characters after it.
        var length = 5
        while whole >= 10 {
            whole /= 10
            length += 1
        }
        while length < width {
            line.append(" ")
            length += 1
        }
        line.append(milliseconds: nanoseconds)
    }

    /// The length of the longest prefix of at most `limit` bytes that does not end inside a UTF-8 character.
    private static func characterPrefix(of text: Span<UInt8>, limit: Int) -> Int {
        guard text.count > limit else { return text.count }
        var end = limit
        // A character has at most three continuation bytes; more are invalid, and each is replaced by itself.
        while end > limit - 3, text[end] & 0xC0 == 0x80 { end -= 1 }
        return text[end] & 0xC0 == 0x80 ? limit : end
    }

    /// The fragment of the route with this index.
    private func route(_ index: Int) -> [UInt8] {
        routes.indices.contains(index) ? routes[index] : routes[routes.count - 1]
    }

    /// The fragment of the target with this index; `nil` if the request was not forwarded.
    private func upstream(_ index: Int) -> [UInt8]? {
        upstreams.indices.contains(index) ? upstreams[index] : nil
    }

    /// The fragment of the rate limit with this index; `nil` if none was exceeded.
    private func limit(_ index: Int) -> [UInt8]? {
        limits.indices.contains(index) ? limits[index] : nil
    }

    /// The fragment of the listener with this index; `nil` if listeners are not logged.
    private func listener(_ index: Int) -> [UInt8]? {
        listeners.indices.contains(index) ? listeners[index] : nil
    }

    /// The fragment of the transport of the request.
    private func transport(_ record: borrowing ExchangeRecord) -> [UInt8] {
        let tls =
            switch record.tlsVersion {
            case nil: 0
            case .tls12: 1
            case .tls13: 2
            }
        // Constants: `allCases` is an array, which is counted and released.
        let version = Int(record.scheme.rawValue) * Self.versionCount + Int(record.protocolVersion.rawValue)
        return transports[version * Self.tlsCount + tls]
    }

    private static let versionCount = HTTPProtocolVersion.allCases.count
    /// TLS versions, and no TLS.
    private static let tlsCount = TLSVersion.allCases.count + 1
}

/// Selects the exchanges to log if a route logs only a fraction of them.
///
/// The decision depends on the random request id, so no random number is generated and the decision can be reproduced
/// from the id.
struct AccessLogSampling {
    /// The number of logged values, out of 2³², of the last 32 bits of an id, by route.
    private let thresholds: [UInt64]

    /// - Parameter ratios: The fraction per route, 0...1, indexed by ``ExchangeRecord/routeIndex``. Routes without an
    ///   entry and unmatched requests are logged completely.
    init(ratios: [Double]) {
        thresholds = ratios.map { ratio in
            // NaN must not suppress lines.
            let share = ratio.isNaN ? 1 : min(max(ratio, 0), 1)
            return UInt64(share * 0x1_0000_0000)
        }
    }

    /// Whether an exchange is logged. Failures and requests rejected as forged or forbidden are always logged, because
    /// operators search for them. Requests without a session are sampled: they dominate a flood of requests and
    /// occur daily because of expired sessions.
    func shouldLog(_ record: borrowing ExchangeRecord) -> Bool {
        guard thresholds.indices.contains(record.routeIndex) else { return true }
        return record.requestID.low & 0xffff_ffff < thresholds[record.routeIndex] || record.errorType != nil
            || record.status >= 500 || record.decision == .csrfRejected || record.decision == .forbidden
    }
}
