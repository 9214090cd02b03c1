import CloakroomCore
public import CloakroomWire

/// Metrics and access log of one event loop. Only this loop uses the object, so there are no locks; loops share the
/// atomic handles and the writer.
///
/// One object exists per loop and route table, because records refer to routes and targets by index. After a reload,
/// exchanges of the old table finish with the old object; then call ``flush()``.
///
/// Folder `Exchange/`: what is recorded about a request: the record, its metrics and its line in the access log.
public final class LoopTelemetry {
    /// The label `route` of unmatched requests.
    public static let unmatchedRoute = "(unmatched)"
    private static let unmatched = RouteLabels(name: unmatchedRoute)
    private static let bufferSize = 16 << 10

    /// Routes, in the order of the record's `routeIndex`.
    public let routes: [RouteLabels]
    /// Targets, in the order of the record's `upstreamIndex`.
    public let upstreams: [UpstreamTarget]

    private let metrics: GatewayMetrics
    private let isMetricsEnabled: Bool
    /// One per route, then that of unmatched requests; empty without metrics.
    private let latencies: [LatencyHistogram]
    /// `nil` if the access log is disabled.
    private let writer: LogWriter?
    private let sampling: AccessLogSampling
    private var formatter: AccessLogFormatter
    /// In JSON.
    private var rejectionFormatter: AccessLogFormatter
    private let rejectedRequests: RejectedRequests
    private var rejection = LineBuffer(reserving: 1_024)
    private var buffer = LineBuffer(reserving: bufferSize + 2_048)
    private var bufferedLines = 0

    private var outcomes = HandleCache<OutcomeHandles>()
    private var serverDurations = HandleCache<HistogramHandle>()
    private var clientDurations = HandleCache<HistogramHandle>()
    private var overheads = HandleCache<HistogramHandle>()
    private var decisions = HandleCache<CounterHandle>()
    private var activeRequests = HandleCache<GaugeHandle>()

    /// - Parameters:
    ///   - isMetricsEnabled: Whether metrics are recorded.
    ///   - writer: The output of log lines; `nil` writes none.
    ///   - accessLogRatios: The fraction of exchanges to log, by route.
    ///   - limits: The names of rate limits, in the order of the record's `limitIndex`.
    ///   - listeners: The addresses of listeners that are logged, in the order of the record's `listenerIndex`.
    init(
        metrics: GatewayMetrics, isMetricsEnabled: Bool = true, writer: LogWriter?, routes: [RouteLabels],
        upstreams: [UpstreamTarget], accessLogRatios: [Double] = [], limits: [String] = [],
        listeners: [String] = [], format: LoggingConfiguration.Format = .json,
        rejectedRequests: RejectedRequests = RejectedRequests()
    ) {
        self.metrics = metrics
        self.isMetricsEnabled = isMetricsEnabled
        let names = isMetricsEnabled ? routes.map(\.name) + [Self.unmatchedRoute] : []
        latencies = names.map { metrics.registry.latencies.histogram(ofRoute: $0) }
        self.writer = writer
        self.routes = routes
        self.upstreams = upstreams
        sampling = AccessLogSampling(ratios: accessLogRatios)
        formatter = AccessLogFormatter(
            routes: routes.map(\.name), upstreams: upstreams, limits: limits, listeners: listeners, format: format)
        rejectionFormatter =
            format == .json
            ? formatter : AccessLogFormatter(routes: routes.map(\.name), upstreams: upstreams, limits: limits)
        self.rejectedRequests = rejectedRequests
    }

    /// Records the arrival of a request head. ``requestCompleted(_:method:path:)`` must be called exactly once
    /// afterwards, with the same scheme and method in its record.
    public func requestStarted(scheme: URIScheme, method: RequestMethod) {
        if isMetricsEnabled { activeRequests(method, scheme).add(1) }
    }

    /// Whether an exchange gets a line in the access log, which then contains the parts of the request that nothing
    /// else needs.
    public func isLogged(_ record: borrowing ExchangeRecord) -> Bool { writer != nil && sampling.shouldLog(record) }

    /// Records the end of the exchange, successful or not.
    ///
    /// - Parameters:
    ///   - record: The data of the exchange.
    ///   - method: The received bytes of the method; used for non-standard methods.
    ///   - path: The bytes of the request target; logged up to the query and up to 1 KiB.
    ///   - host: The bytes of the authority; empty if there is none or the exchange is not logged.
    ///   - sentPath: The path that was forwarded; empty if it was the received one.
    ///   - userAgent: The bytes of the field `User-Agent`, logged up to 256 bytes; empty like `host`.
    public func requestCompleted(
        _ record: borrowing ExchangeRecord, method: Span<UInt8>, path: Span<UInt8>, host: Span<UInt8> = Span(),
        userAgent: Span<UInt8> = Span(), sentPath: Span<UInt8> = Span()
    ) {
        if isMetricsEnabled {
            activeRequests(record.method, record.scheme).add(-1)
            latencies[routes.indices.contains(record.routeIndex) ? record.routeIndex : routes.count]
                .record(nanoseconds: record.durationNanoseconds)
            if let key = Self.forwardedKey(record) {
                forwarded(record, key).record(record)
            } else {
                recordDurations(record)
                if record.decision.isAuthDecision { authDecisions(record).increment() }
            }
            if let reason = record.unauthorizedReason { metrics.unauthorizedResponses[reason]?.increment() }
        }
        guard isLogged(record) else { return }
        formatter.append(
            record, method: method, path: path, host: host, userAgent: userAgent, sentPath: sentPath,
            to: &buffer)
        bufferedLines += 1
        if buffer.count >= Self.bufferSize { flush() }
    }

    /// Keeps a request that was rejected or that failed, for `cloakroom why`.
    /// - Parameter credentials: The kinds of credentials in the request.
    public func keepRejected(
        _ record: borrowing ExchangeRecord, _ details: RejectionDetails, listener: String, credentials: StaticString,
        method: Span<UInt8>, path: Span<UInt8>, host: Span<UInt8>
    ) {
        typealias JSON = AccessLogJSON
        rejection.append("{\"request\":")
        rejectionFormatter.append(
            record, method: method, path: path.extracting(first: RejectedRequests.textLimit),
            host: host.extracting(first: RejectedRequests.textLimit), to: &rejection)
        JSON.field("listener", text: listener.utf8.span, to: &rejection)
        JSON.field("credentials", credentials, to: &rejection)
        if let code = details.code { JSON.field("code", text: code.rawValue.utf8.span, to: &rejection) }
        if let login = details.loginFailure { JSON.field("login", text: login.utf8.span, to: &rejection) }
        if let claim = details.claim { JSON.field("claim", text: claim.utf8.span, to: &rejection) }
        // Most have none, for which a list would be joined from nothing.
        let attempts =
            details.attempts.isEmpty
            ? ""
            : details.attempts.map { attempt in
                let target =
                    upstreams.indices.contains(attempt.target) ? upstreams[attempt.target].authority : "no target"
                return "\(target): \(attempt.outcome.split(separator: "_").joined(separator: " "))"
            }.joined(separator: ", ")
        JSON.field("attempts", text: attempts.utf8.span, to: &rejection)
        rejection.append("}")
        rejectedRequests.add(record.requestID, time: record.startWallNanoseconds, rejection.take())
    }

    /// Submits the buffered lines to the writer. The owner calls it from a timer, every 100 to 200 ms, and before it
    /// releases this object.
    public func flush() {
        guard let writer, bufferedLines > 0 else { return }
        writer.submit(bytes: buffer.take(), lines: bufferedLines)
        bufferedLines = 0
    }

    /// The handles of a forwarded request, found together: separate searches took 300 instructions more.
    private func forwarded(_ record: borrowing ExchangeRecord, _ key: HandleKey) -> OutcomeHandles {
        if let handles = outcomes[key] { return handles }
        let handles = OutcomeHandles(
            server: serverDuration(record), overhead: overheadDuration(record),
            client: upstreams.indices.contains(record.upstreamIndex) ? clientDuration(record) : nil,
            decision: record.decision.isAuthDecision ? authDecisions(record) : nil)
        return outcomes.insert(handles, for: key)
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

/// Each method finds its handle by small integers and renders labels only on first use.
extension LoopTelemetry {
    private func activeRequests(_ method: RequestMethod, _ scheme: URIScheme) -> GaugeHandle {
        let key = HandleKey().adding(method).adding(scheme)
        if let handle = activeRequests[key] { return handle }
        return activeRequests.insert(metrics.activeRequests(method: method, scheme: scheme), for: key)
    }

    private func serverDuration(_ record: borrowing ExchangeRecord) -> HistogramHandle {
        let key = Self.outcomeKey(record, index: record.routeIndex, status: record.status)
        if let handle = serverDurations[key] { return handle }
        let route = labels(ofRoute: record.routeIndex)
        return serverDurations.insert(metrics.serverRequestDuration(record, route: route), for: key)
    }

    private func clientDuration(_ record: borrowing ExchangeRecord) -> HistogramHandle {
        let key = Self.outcomeKey(
            record, index: record.upstreamIndex, status: record.upstreamStatus ?? record.status)
        if let handle = clientDurations[key] { return handle }
        let target = upstreams[record.upstreamIndex]
        return clientDurations.insert(metrics.clientRequestDuration(record, target: target), for: key)
    }

    private func overheadDuration(_ record: borrowing ExchangeRecord) -> HistogramHandle {
        let key = HandleKey().adding(index: record.routeIndex)
        if let handle = overheads[key] { return handle }
        return overheads.insert(metrics.overheadDuration(route: labels(ofRoute: record.routeIndex).name), for: key)
    }

    private func authDecisions(_ record: borrowing ExchangeRecord) -> CounterHandle {
        let key = HandleKey().adding(index: record.routeIndex).adding(record.decision)
        if let handle = decisions[key] { return handle }
        let route = labels(ofRoute: record.routeIndex).name
        return decisions.insert(metrics.authDecisions(route: route, decision: record.decision), for: key)
    }

    private func labels(ofRoute index: Int) -> RouteLabels {
        routes.indices.contains(index) ? routes[index] : Self.unmatched
    }

    /// All that selects the handles of a forwarded request; `nil` for the unusual cases that a key has no space for.
    private static func forwardedKey(_ record: borrowing ExchangeRecord) -> HandleKey? {
        guard record.upstreamDurationNanoseconds != nil, record.upstreamStatus == nil, record.errorType == nil,
            record.status < 1_024, let route = UInt16(exactly: record.routeIndex + 1),
            let upstream = UInt16(exactly: record.upstreamIndex + 1)
        else { return nil }
        return HandleKey().adding(route, bits: 16).adding(upstream, bits: 16).adding(record.status, bits: 10)
            .adding(record.decision).adding(record.method).adding(record.scheme).adding(record.protocolVersion)
    }

    private static func outcomeKey(_ record: borrowing ExchangeRecord, index: Int, status: UInt16) -> HandleKey {
        let error = record.errorType.map { $0.rawValue + 1 } ?? 0
        return HandleKey().adding(index: index).adding(status, bits: 16).adding(error, bits: 5)
            .adding(record.method).adding(record.scheme).adding(record.protocolVersion)
    }
}

/// The handles for the outcome of a forwarded request.
private final class OutcomeHandles {
    private let server: HistogramHandle
    private let overhead: HistogramHandle
    /// `nil` if the target is unknown.
    private let client: HistogramHandle?
    /// `nil` if the decision is not counted.
    private let decision: CounterHandle?

    init(server: HistogramHandle, overhead: HistogramHandle, client: HistogramHandle?, decision: CounterHandle?) {
        self.server = server
        self.overhead = overhead
        self.client = client
        self.decision = decision
    }

    func record(_ record: borrowing ExchangeRecord) {
        server.record(nanoseconds: record.durationNanoseconds)
        overhead.record(nanoseconds: record.overheadNanoseconds)
        client?.record(nanoseconds: record.upstreamDurationNanoseconds ?? 0)
        decision?.increment()
    }
}
