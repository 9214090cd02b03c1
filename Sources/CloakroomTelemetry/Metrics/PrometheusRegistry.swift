public import CloakroomCore
public import Metrics
import Synchronization

/// The registry of all metrics of the process. Recording does not use the lock; it is taken only to get a handle and at
/// a scrape. The same name and labels return the same handle.
///
/// Registration never fails: a series beyond the limit, or a name used by another kind, gets a working handle that is
/// not exposed, and is counted in `cloakroom_telemetry_dropped_total{signal="metrics"}`.
///
/// Folder `Metrics/`: counters, gauges and histograms, and their exposition; knows no metric by name.
public final class PrometheusRegistry: Sendable {
    struct State {
        var families: [String: MetricFamily] = [:]
        /// All reserved names; see ``MetricName/reservedNames(_:_:)``.
        var claimedNames: Set<String> = []
        var collectors: [@Sendable () -> Void] = []
    }

    private static let droppedName = "cloakroom_telemetry_dropped_total"
    private static let droppedHelp = "Dropped telemetry, by signal."

    /// The durations of requests for the status page; not exposed to scrapers.
    let latencies = RouteLatencies()
    let state = Mutex(State())
    /// Counts the handles that are not exposed.
    let dropped: CounterHandle
    private let seriesLimit: Int
    /// The bounds of histograms of durations.
    private let durationBuckets: HistogramBuckets

    /// The default maximum number of series per family: twice 500 routes with 10 outcomes each.
    public static let defaultSeriesLimit = 10_000

    /// - Parameters:
    ///   - seriesLimit: The maximum number of series per family.
    ///   - buckets: The upper bounds of histograms of durations, in seconds, ascending; at most
    ///     ``MetricsConfiguration/maxBuckets``.
    public init(
        seriesLimit: Int = defaultSeriesLimit, buckets: [Double] = MetricsConfiguration.defaultBuckets
    ) {
        self.seriesLimit = seriesLimit
        durationBuckets = HistogramBuckets(seconds: buckets)
        dropped = CounterHandle()
        state.withLock { state in
            let labels = LabelSet([("signal", "metrics")], kind: .counter)
            var family = MetricFamily(name: Self.droppedName, help: Self.droppedHelp, kind: .counter)
            _ = family.series(for: labels, kind: .counter, orInsert: .counter(dropped), limit: 1)
            state.families[Self.droppedName] = family
            state.claimedNames = MetricName.reservedNames(Self.droppedName, .counter)
        }
    }

    /// An integer counter. The suffix `_total` is added to the name if absent.
    public func counter(_ name: String, help: String, labels: [(String, String)] = []) -> CounterHandle {
        let made = CounterHandle()
        return register(name, help: help, kind: .counter, labels: labels, .counter(made)) ?? made
    }

    /// The counter of dropped telemetry of one signal.
    func dropped(signal: String) -> CounterHandle {
        counter(Self.droppedName, help: Self.droppedHelp, labels: [("signal", signal)])
    }

    /// A floating-point counter. The suffix `_total` is added to the name if absent.
    public func floatingPointCounter(
        _ name: String, help: String, labels: [(String, String)] = []
    ) -> FloatingPointCounterHandle {
        let made = FloatingPointCounterHandle()
        return register(name, help: help, kind: .counter, labels: labels, .floatingPointCounter(made)) ?? made
    }

    /// An integer gauge.
    public func gauge(_ name: String, help: String, labels: [(String, String)] = []) -> GaugeHandle {
        let made = GaugeHandle()
        return register(name, help: help, kind: .gauge, labels: labels, .gauge(made)) ?? made
    }

    /// A floating-point gauge.
    public func floatingPointGauge(
        _ name: String, help: String, labels: [(String, String)] = []
    ) -> FloatingPointGaugeHandle {
        let made = FloatingPointGaugeHandle()
        return register(name, help: help, kind: .gauge, labels: labels, .floatingPointGauge(made)) ?? made
    }

    /// A histogram of durations, exposed in seconds. The name should end in `_seconds`.
    public func histogram(_ name: String, help: String, labels: [(String, String)] = []) -> HistogramHandle {
        histogram(name, help: help, labels: labels, buckets: durationBuckets)
    }

    func histogram(
        _ name: String, help: String, labels: [(String, String)], buckets: HistogramBuckets
    ) -> HistogramHandle {
        let made = HistogramHandle(buckets: buckets)
        return register(name, help: help, kind: .histogram, labels: labels, .histogram(made)) ?? made
    }

    /// Registers a callback that runs before every scrape, for values that are read rather than recorded. It must be
    /// fast and must not scrape.
    public func onScrape(_ collect: @escaping @Sendable () -> Void) {
        state.withLock { $0.collectors.append(collect) }
    }

    /// The handle for this name and these labels; inserts `made` if there is none. `nil` if the series cannot be
    /// exposed.
    private func register<Handle: AnyObject>(
        _ rawName: String, help: String, kind: MetricKind, labels: [(String, String)], _ made: SeriesHandle
    ) -> Handle? {
        let name = MetricName.family(rawName, kind)
        let labels = LabelSet(labels, kind: kind)
        // The counter of dropped series must not itself be dropped.
        let limit = name == Self.droppedName ? .max : seriesLimit
        let found: SeriesHandle? = state.withLock { state in
            if state.families[name] == nil {
                let names = MetricName.reservedNames(name, kind)
                guard state.claimedNames.isDisjoint(with: names), limit > 0 else { return nil }
                state.claimedNames.formUnion(names)
                state.families[name] = MetricFamily(name: name, help: help, kind: kind)
            }
            // Modified in place, so that adding one of thousands of series does not copy the others.
            return state.families[name]?.series(for: labels, kind: kind, orInsert: made, limit: limit)
        }
        if found == nil { dropped.increment() }
        return found?.object as? Handle
    }

    /// Removes the series of a handle from the exposition, for an object that no longer exists. The handle keeps
    /// working, and the next request for the same labels starts a new series. Handles for the same labels share the
    /// series, so only the last user may remove it. A family is removed with its last series, which frees its name.
    public func remove(_ handle: AnyObject) {
        guard handle !== dropped else { return }
        state.withLock { state in
            let owner = state.families.first { $0.value.series.contains { $0.handle.object === handle } }?.key
            guard let owner, state.families[owner]?.removeLeavingNone(handle) == true,
                let family = state.families.removeValue(forKey: owner)
            else { return }
            state.claimedNames.subtract(MetricName.reservedNames(owner, family.kind))
        }
    }
}

extension PrometheusRegistry {
    /// All metrics in Prometheus' text format 0.0.4.
    public func exposition() -> [UInt8] {
        PrometheusExposition.render(collected().values.sorted { $0.name < $1.name })
    }

    /// The value of `Content-Type` for ``exposition()``.
    public static var contentType: String { PrometheusExposition.contentType }

    /// The families after running the collection callbacks. The lock is held only to take the tables; they are copied
    /// if a series is added during the scrape.
    func collected() -> [String: MetricFamily] {
        let collectors = state.withLock { $0.collectors }
        for collect in collectors { collect() }
        return recorded()
    }

    /// The families without running the collection callbacks.
    func recorded() -> [String: MetricFamily] {
        state.withLock { $0.families }
    }
}

/// The swift-metrics factory for libraries. Names are converted to Prometheus' rules: counters end in `_total`, timers
/// are histograms in seconds, meters and non-aggregating recorders are gauges, aggregating recorders are histograms
/// over powers of ten.
extension PrometheusRegistry: MetricsFactory {
    /// A counter, `_total`.
    public func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        counter(MetricName.metric(label, suffix: "_total"), help: Self.libraryHelp(label), labels: dimensions)
    }

    /// A floating-point counter, `_total`.
    public func makeFloatingPointCounter(
        label: String, dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        floatingPointCounter(
            MetricName.metric(label, suffix: "_total"), help: Self.libraryHelp(label), labels: dimensions)
    }

    /// A gauge.
    public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        floatingPointGauge(label, help: Self.libraryHelp(label), labels: dimensions)
    }

    /// A histogram if the recorder aggregates, otherwise a gauge with the last value.
    public func makeRecorder(
        label: String, dimensions: [(String, String)], aggregate: Bool
    ) -> any RecorderHandler {
        let help = Self.libraryHelp(label)
        return aggregate
            ? histogram(label, help: help, labels: dimensions, buckets: .magnitudes)
            : floatingPointGauge(label, help: help, labels: dimensions)
    }

    /// A histogram in seconds, `_seconds`.
    public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        histogram(MetricName.metric(label, suffix: "_seconds"), help: Self.libraryHelp(label), labels: dimensions)
    }

    /// Removes the series from the exposition.
    public func destroyCounter(_ handler: any CounterHandler) { remove(handler) }

    /// Removes the series from the exposition.
    public func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { remove(handler) }

    /// Removes the series from the exposition.
    public func destroyMeter(_ handler: any MeterHandler) { remove(handler) }

    /// Removes the series from the exposition.
    public func destroyRecorder(_ handler: any RecorderHandler) { remove(handler) }

    /// Removes the series from the exposition.
    public func destroyTimer(_ handler: any TimerHandler) { remove(handler) }

    private static func libraryHelp(_ label: String) -> String {
        "Recorded by a library as \(label)."
    }
}
