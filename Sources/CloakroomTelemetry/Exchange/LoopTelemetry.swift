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
    init(
        metrics: GatewayMetrics, isMetricsEnabled: Bool = true, writer: LogWriter?, routes: [RouteLabels],
        upstreams: [UpstreamTarget], accessLogRatios: [Double] = [], format: LoggingConfiguration.Format = .json
    ) {
        self.metrics = metrics
        self.isMetricsEnabled = isMetricsEnabled
        let names = isMetricsEnabled ? routes.map(\.name) + [Self.unmatchedRoute] : []
        latencies = names.map { metrics.registry.latencies.histogram(ofRoute: $0) }
        self.writer = writer
        self.routes = routes
        self.upstreams = upstreams
        sampling = AccessLogSampling(ratios: accessLogRatios)
        formatter = AccessLogFormatter(routes: routes.map(\.name), upstreams: upstreams, format: format)
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
    ///   - userAgent: The bytes of the field `User-Agent`, logged up to 256 bytes; empty like `host`.
    public func requestCompleted(
        _ record: borrowing ExchangeRecord, method: Span<UInt8>, path: Span<UInt8>, host: Span<UInt8> = Span(),
        userAgent: Span<UInt8> = Span()
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
            if let reason = record.unauthorizedReason { metrics.recordUnauthorized(reason) }
        }
        guard isLogged(record) else { return }
        formatter.append(record, method: method, path: path, host: host, userAgent: userAgent, to: &buffer)
        bufferedLines += 1
        if buffer.count >= Self.bufferSize { flush() }
    }

    /// Submits the buffered lines to the writer. The owner calls it from a timer, every 100 to 200 ms, and before it
    /// releases this object.
    public func flush() {
        guard let writer, bufferedLines > 0 else { return }
        writer.submit(bytes: buffer.take(), lines: bufferedLines)
        bufferedLines = 0
    }

    /// The handles of a forwarded request, found together: separate searches took 300 instructions more.
    private func forwarded(_ record: borrowing ExchangeRecord, _ key: UInt64) -> OutcomeHandles {
        if let handles = outcomes[key] { return handles }
        let handles = OutcomeHandles(
            server: serverDuration(record), overhead: overheadDuration(record),
            client: upstreams.indices.contains(record.upstreamIndex) ? clientDuration(record) : nil,
            decision: record.decision.isAuthDecision ? authDecisions(record) : nil)
        outcomes.insert(handles, for: key)
        return handles
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
        let key = UInt64(method.rawValue) << 8 | UInt64(scheme.rawValue)
        if let handle = activeRequests[key] { return handle }
        let handle = metrics.activeRequests(method: method, scheme: scheme)
        activeRequests.insert(handle, for: key)
        return handle
    }

    private func serverDuration(_ record: borrowing ExchangeRecord) -> HistogramHandle {
        let key = Self.outcomeKey(record, index: record.routeIndex, status: record.status)
        if let handle = serverDurations[key] { return handle }
        let handle = metrics.serverRequestDuration(record, route: labels(ofRoute: record.routeIndex))
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
        let handle = metrics.overheadDuration(route: labels(ofRoute: record.routeIndex).name)
        overheads.insert(handle, for: key)
        return handle
    }

    private func authDecisions(_ record: borrowing ExchangeRecord) -> CounterHandle {
        let key = UInt64(truncatingIfNeeded: record.routeIndex + 1) << 8 | UInt64(record.decision.rawValue)
        if let handle = decisions[key] { return handle }
        let handle = metrics.authDecisions(route: labels(ofRoute: record.routeIndex).name, decision: record.decision)
        decisions.insert(handle, for: key)
        return handle
    }

    private func labels(ofRoute index: Int) -> RouteLabels {
        routes.indices.contains(index) ? routes[index] : Self.unmatched
    }

    /// All that selects the handles of a forwarded request, packed into one word; `nil` for the unusual cases that it
    /// has no space for.
    private static func forwardedKey(_ record: borrowing ExchangeRecord) -> UInt64? {
        guard record.upstreamDurationNanoseconds != nil, record.upstreamStatus == nil, record.errorType == nil,
            record.status < 1_024, let route = UInt16(exactly: record.routeIndex + 1),
            let upstream = UInt16(exactly: record.upstreamIndex + 1)
        else { return nil }
        let shape =
            UInt64(record.method.rawValue) << 8 | UInt64(record.scheme.rawValue) << 6
            | UInt64(record.protocolVersion.rawValue) << 4 | UInt64(record.decision.rawValue)
        return UInt64(route) << 40 | UInt64(upstream) << 24 | UInt64(record.status) << 14 | shape
    }

    /// Index, status, method, scheme, protocol version and error, packed into one word.
    private static func outcomeKey(_ record: borrowing ExchangeRecord, index: Int, status: UInt16) -> UInt64 {
        let error = record.errorType.map { UInt64($0.rawValue) + 1 } ?? 0
        let shape =
            UInt64(record.method.rawValue) << 4 | UInt64(record.scheme.rawValue) << 2
            | UInt64(record.protocolVersion.rawValue)
        return UInt64(truncatingIfNeeded: index + 1) << 32 | UInt64(status) << 16 | error << 8 | shape
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

/// A cache of the handles of one loop by a packed key: open addressing over two flat arrays, so a hit usually costs one
/// multiplication and one comparison.
struct HandleCache<Handle: AnyObject> {
    /// A free slot holds 0; keys have their top bit set, so none of them is 0.
    private var keys: [UInt64]
    private var handles: [Handle?]
    private(set) var count = 0
    private let limit: Int

    /// - Parameter limit: The maximum number of cached handles; others are requested from the registry each time.
    init(limit: Int = 16_384) {
        self.limit = limit
        keys = Array(repeating: 0, count: 64)
        handles = Array(repeating: nil, count: 64)
    }

    subscript(key: UInt64) -> Handle? {
        let key = key | Self.taken
        var slot = Self.slot(of: key, mask: keys.count - 1)
        while true {
            let found = keys[slot]
            if found == key { return handles[slot] }
            if found == 0 { return nil }
            slot = (slot + 1) & (keys.count - 1)
        }
    }

    /// Inserts a handle whose key is absent.
    mutating func insert(_ handle: Handle, for key: UInt64) {
        guard count < limit else { return }
        if (count + 1) * 2 > keys.count { grow() }
        place(handle, key | Self.taken)
        count += 1
    }

    private mutating func place(_ handle: Handle?, _ key: UInt64) {
        var slot = Self.slot(of: key, mask: keys.count - 1)
        while keys[slot] != 0 { slot = (slot + 1) & (keys.count - 1) }
        keys[slot] = key
        handles[slot] = handle
    }

    private mutating func grow() {
        let (oldKeys, oldHandles) = (keys, handles)
        keys = Array(repeating: 0, count: oldKeys.count * 2)
        handles = Array(repeating: nil, count: oldKeys.count * 2)
        for index in oldKeys.indices where oldKeys[index] != 0 { place(oldHandles[index], oldKeys[index]) }
    }

    private static var taken: UInt64 { 1 << 63 }

    private static func slot(of key: UInt64, mask: Int) -> Int {
        // Fibonacci hashing: the product's high bits depend on all bits of the key.
        Int(truncatingIfNeeded: (key &* 0x9E37_79B9_7F4A_7C15) >> 32) & mask
    }
}
