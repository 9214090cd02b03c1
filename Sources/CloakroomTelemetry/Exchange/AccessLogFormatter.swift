/// Formats one line per finished exchange, as JSON or as text. Constant parts (names of routes and targets) are
/// rendered once.
struct AccessLogFormatter {
    /// The maximum length of a method in bytes; longer ones are truncated.
    static let methodLimit = 32

    private var timestamp = RFC3339Renderer()
    private let format: TelemetrySettings.LogFormat
    /// The fragment of each route; the last one is for unmatched requests.
    private let routes: [[UInt8]]
    /// The fragment of each target.
    private let upstreams: [[UInt8]]
    /// The fragment of each transport, by ``transportIndex(_:)``.
    private let transports: [[UInt8]]

    init(routes: [String], upstreams: [UpstreamTarget], format: TelemetrySettings.LogFormat = .json) {
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
        _ record: borrowing ExchangeRecord, method: Span<UInt8>, path: Span<UInt8>, to line: inout LineBuffer
    ) {
        let path = path.extracting(first: ExchangeRecord.loggablePathLength(ofPath: path))
        let method = method.extracting(first: Self.methodLimit)
        switch format {
        case .json:
            line.append("{\"time\":\"")
            timestamp.append(record.startWallNanoseconds, to: &line)
            appendJSON(record, method: method, path: path, to: &line)
        case .text:
            timestamp.append(record.startWallNanoseconds, to: &line)
            appendText(record, method: method, path: path, to: &line)
        }
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

    private static func transportIndex(
        _ scheme: URIScheme, _ version: HTTPProtocolVersion, _ tls: ExchangeTLSVersion?
    ) -> Int {
        (Int(scheme.rawValue) * HTTPProtocolVersion.allCases.count + Int(version.rawValue))
            * (ExchangeTLSVersion.allCases.count + 1) + (tls.map { Int($0.rawValue) + 1 } ?? 0)
    }

    /// In the order of ``transportIndex(_:_:_:)``.
    private static func transports(
        _ fragment: (URIScheme, HTTPProtocolVersion, ExchangeTLSVersion?) -> [UInt8]
    ) -> [[UInt8]] {
        URIScheme.allCases.flatMap { scheme in
            HTTPProtocolVersion.allCases.flatMap { version in
                ([nil] + ExchangeTLSVersion.allCases.map(Optional.some)).map { fragment(scheme, version, $0) }
            }
        }
    }
}
