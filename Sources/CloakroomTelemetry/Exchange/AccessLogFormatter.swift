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
    /// The fragment of each transport, by ``transportIndex(_:)``.
    private let transports: [[UInt8]]

    init(routes: [String], upstreams: [UpstreamTarget], format: LoggingConfiguration.Format = .json) {
        self.format = format
        let routes = routes + [LoopTelemetry.unmatchedRoute]
        switch format {
        case .json:
            self.routes = routes.map(Self.jsonFragment(route:))
            self.upstreams = upstreams.map(Self.jsonFragment(upstream:))
            transports = Self.transports(Self.jsonFragment(scheme:version:tls:))
        case .text:
            self.routes = routes.map(Self.textFragment(route:))
            self.upstreams = upstreams.map(Self.textFragment(upstream:))
            transports = Self.transports(Self.textFragment(scheme:version:tls:))
        }
    }

    /// Appends the line, line feed included.
    mutating func append(
        _ record: borrowing ExchangeRecord, method: Span<UInt8>, path: Span<UInt8>, host: Span<UInt8> = Span(),
        userAgent: Span<UInt8> = Span(), to line: inout LineBuffer
    ) {
        let path = path.extracting(first: ExchangeRecord.loggablePathLength(ofPath: path))
        let method = method.extracting(first: Self.methodLimit)
        let host = host.extracting(first: Self.hostLimit)
        let userAgent = userAgent.extracting(first: Self.characterPrefix(of: userAgent, limit: Self.userAgentLimit))
        switch format {
        case .json:
            line.append("{\"time\":\"")
            timestamp.append(record.startWallNanoseconds, to: &line)
            appendJSON(record, method: method, path: path, host: host, userAgent: userAgent, to: &line)
        case .text:
            timestamp.append(record.startWallNanoseconds, to: &line)
            appendText(record, method: method, path: path, host: host, userAgent: userAgent, to: &line)
        }
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
    func route(_ index: Int) -> [UInt8] {
        routes.indices.contains(index) ? routes[index] : routes[routes.count - 1]
    }

    /// The fragment of the target with this index; `nil` if the request was not forwarded.
    func upstream(_ index: Int) -> [UInt8]? {
        upstreams.indices.contains(index) ? upstreams[index] : nil
    }

    /// The fragment of the transport of the request.
    func transport(_ record: borrowing ExchangeRecord) -> [UInt8] {
        transports[Self.transportIndex(record.scheme, record.protocolVersion, record.tlsVersion)]
    }

    /// Whether a record has values of ``ExchangeRecord`` that most requests do not have.
    static func hasAttemptFields(_ record: borrowing ExchangeRecord) -> Bool {
        record.retryReason != nil
            || record.queueNanoseconds | record.bodyWaitNanoseconds | record.identityNanoseconds != 0
            || record.upstreamPeer != nil
            || record.upstreamProtocol != nil
    }

    private static let versionCount = HTTPProtocolVersion.allCases.count
    /// TLS versions, and no TLS.
    private static let tlsCount = TLSVersion.allCases.count + 1

    private static func transportIndex(
        _ scheme: URIScheme, _ version: HTTPProtocolVersion, _ tls: TLSVersion?
    ) -> Int {
        let tlsIndex =
            switch tls {
            case nil: 0
            case .tls12: 1
            case .tls13: 2
            }
        // Constants: `allCases` is an array, which is counted and released.
        return (Int(scheme.rawValue) * versionCount + Int(version.rawValue)) * tlsCount + tlsIndex
    }

    /// In the order of ``transportIndex(_:_:_:)``.
    private static func transports(
        _ fragment: (URIScheme, HTTPProtocolVersion, TLSVersion?) -> [UInt8]
    ) -> [[UInt8]] {
        URIScheme.allCases.flatMap { scheme in
            HTTPProtocolVersion.allCases.flatMap { version in
                ([nil] + TLSVersion.allCases.map(Optional.some)).map { fragment(scheme, version, $0) }
            }
        }
    }
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
