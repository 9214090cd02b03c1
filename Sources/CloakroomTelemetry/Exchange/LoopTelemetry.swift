/// Metrics and access log of one event loop. It belongs to that loop alone, so nothing here is locked; what it shares
/// with other loops are atomic handles and the writer.
///
/// One is made per loop and per route table, because records name routes and targets by index. On a reload, exchanges
/// that began under the old table finish with the old object; ``flush()`` it once they have.
public final class LoopTelemetry {
    /// The route of requests that no configured route matched.
    public static let unmatchedRoute = "(unmatched)"
    private static let bufferSize = 16 << 10

    /// Configured names, in the order of the record's `routeIndex`.
    public let routes: [String]
    /// Targets, in the order of the record's `upstreamIndex`.
    public let upstreams: [UpstreamTarget]

    private let metrics: GatewayMetrics
    private let isMetricsEnabled: Bool
    /// `nil` when the access log is off.
    private let writer: LogWriter?
    private let sampling: AccessLogSampling
    private var formatter: AccessLogFormatter
    private var buffer = LineBuffer(reserving: bufferSize + 2_048)
    private var bufferedLines = 0

    private var serverDurations = HandleCache<HistogramHandle>()
    private var clientDurations = HandleCache<HistogramHandle>()
    private var overheads = HandleCache<HistogramHandle>()
    private var decisions = HandleCache<CounterHandle>()
    private var activeRequests = HandleCache<GaugeHandle>()

    /// - Parameters:
    ///   - isMetricsEnabled: Without, nothing is counted.
    ///   - writer: Where lines go; `nil` writes none.
    ///   - accessLogRatios: For each route, which share of its exchanges is written.
    init(
        metrics: GatewayMetrics, isMetricsEnabled: Bool = true, writer: LogWriter?, routes: [String],
        upstreams: [UpstreamTarget], accessLogRatios: [Double] = [], format: TelemetrySettings.LogFormat = .json
    ) {
        self.metrics = metrics
        self.isMetricsEnabled = isMetricsEnabled
        self.writer = writer
        self.routes = routes
        self.upstreams = upstreams
        sampling = AccessLogSampling(ratios: accessLogRatios)
        formatter = AccessLogFormatter(routes: routes, upstreams: upstreams, format: format)
    }

    /// A request head has arrived. ``requestCompleted(_:method:path:)`` must follow exactly once, with the same scheme and
    /// method in its record.
    public func requestStarted(scheme: URIScheme, method: RequestMethod) {
        if isMetricsEnabled { activeRequests(method, scheme).add(1) }
    }

    /// The exchange is over, however it ended.
    ///
    /// - Parameters:
    ///   - record: what is known about it.
    ///   - method: the method's bytes as received; read for methods that are not standard ones.
    ///   - path: the request target's bytes; logged up to the query and up to 1 KiB.
    public func requestCompleted(_ record: borrowing ExchangeRecord, method: Span<UInt8>, path: Span<UInt8>) {
        if isMetricsEnabled {
            activeRequests(record.method, record.scheme).add(-1)
            recordDurations(record)
            if record.decision.isAuthDecision { authDecisions(record).increment() }
        }
        guard writer != nil, sampling.shouldLog(record) else { return }
        formatter.append(record, method: method, path: path, to: &buffer)
        bufferedLines += 1
        if buffer.count >= Self.bufferSize { flush() }
    }

    /// Hands the lines so far to the writer. The owner calls it from a timer, every 100 to 200 ms, and before it lets go
    /// of this object.
    public func flush() {
        guard let writer, bufferedLines > 0 else { return }
        writer.submit(bytes: buffer.take(), lines: bufferedLines)
        bufferedLines = 0
    }

    private func recordDurations(_ record: borrowing ExchangeRecord) {
        serverDuration(record).record(nanoseconds: record.durationNanoseconds)
        guard let upstreamNanoseconds = record.upstreamDurationNanoseconds else { return }
        overheadDuration(record).record(nanoseconds: record.overheadNanoseconds)
        if upstreams.indices.contains(record.upstreamIndex) {
            clientDuration(record).record(nanoseconds: upstreamNanoseconds)
        }
    }
}

/// Each of these finds its handle by small integers; only the first time does it render labels and ask the registry.
extension LoopTelemetry {
    private func activeRequests(_ method: RequestMethod, _ scheme: URIScheme) -> GaugeHandle {
        let key = UInt64(method.rawValue) << 8 | UInt64(scheme.rawValue)
        if let handle = activeRequests[key] { return handle }
        let handle = metrics.activeRequests(method: method, scheme: scheme)
        activeRequests.insert(handle, for: key)
        return handle
    }

    private func serverDuration(_ record: borrowing ExchangeRecord) -> HistogramHandle {
        let key = Self.outcomeKey(record, index: record.routeIndex, status: record.status)
        if let handle = serverDurations[key] { return handle }
        let handle = metrics.serverRequestDuration(record, route: routeName(record.routeIndex))
        serverDurations.insert(handle, for: key)
        return handle
    }

    private func clientDuration(_ record: borrowing ExchangeRecord) -> HistogramHandle {
        let key = Self.outcomeKey(
            record, index: record.upstreamIndex, status: record.upstreamStatus ?? record.status)
        if let handle = clientDurations[key] { return handle }
        let handle = metrics.clientRequestDuration(record, target: upstreams[record.upstreamIndex])
        clientDurations.insert(handle, for: key)
        return handle
    }

    private func overheadDuration(_ record: borrowing ExchangeRecord) -> HistogramHandle {
        let key = UInt64(truncatingIfNeeded: record.routeIndex + 1)
        if let handle = overheads[key] { return handle }
        let handle = metrics.overheadDuration(route: routeName(record.routeIndex))
        overheads.insert(handle, for: key)
        return handle
    }

    private func authDecisions(_ record: borrowing ExchangeRecord) -> CounterHandle {
        let key = UInt64(truncatingIfNeeded: record.routeIndex + 1) << 8 | UInt64(record.decision.rawValue)
        if let handle = decisions[key] { return handle }
        let handle = metrics.authDecisions(route: routeName(record.routeIndex), decision: record.decision)
        decisions.insert(handle, for: key)
        return handle
    }

    private func routeName(_ index: Int) -> String {
        routes.indices.contains(index) ? routes[index] : Self.unmatchedRoute
    }

    /// Index, status, method, scheme, protocol version and error, side by side in one word.
    private static func outcomeKey(_ record: borrowing ExchangeRecord, index: Int, status: UInt16) -> UInt64 {
        let error = record.errorType.map { UInt64($0.rawValue) + 1 } ?? 0
        let shape =
            UInt64(record.method.rawValue) << 4 | UInt64(record.scheme.rawValue) << 2
            | UInt64(record.protocolVersion.rawValue)
        return UInt64(truncatingIfNeeded: index + 1) << 32 | UInt64(status) << 16 | error << 8 | shape
    }
}
