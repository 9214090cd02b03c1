import Synchronization

/// Every metric of the process. Handles record without it; its lock is taken only when a handle is asked for and at a
/// scrape. Asking again for the same name and labels gives the same handle.
///
/// Nothing a caller does makes it fail: a series beyond the cap, a name that is taken by another kind, all get a handle
/// that works and is not exposed, and are counted in `cloakroom_telemetry_dropped_total{signal="metrics"}`.
public final class PrometheusRegistry: Sendable {
    struct State {
        var families: [String: MetricFamily] = [:]
        /// Every sample name in use: a histogram takes `…_bucket`, `…_count` and `…_sum` as well.
        var sampleNames: Set<String> = []
        var collectors: [@Sendable () -> Void] = []
    }

    static let droppedName = "cloakroom_telemetry_dropped_total"
    static let droppedHelp = "Telemetry that was not kept, by signal."

    let state = Mutex(State())
    /// Counts the handles that were given out unexposed.
    let dropped: CounterHandle
    private let seriesLimit: Int

    /// - Parameter seriesLimit: how many series one family may have.
    public init(seriesLimit: Int = 2_000) {
        self.seriesLimit = seriesLimit
        dropped = CounterHandle()
        state.withLock { state in
            let labels = LabelSet([("signal", "metrics")], kind: .counter)
            state.families[Self.droppedName] = MetricFamily(
                help: Self.droppedHelp, kind: .counter, series: [labels: .counter(dropped)])
            state.sampleNames.insert(Self.droppedName)
        }
    }

    /// A counter of whole numbers. The name should end in `_total`.
    public func counter(_ name: String, help: String, labels: [(String, String)] = []) -> CounterHandle {
        let made = CounterHandle()
        let found = register(name, help: help, kind: .counter, labels: labels, .counter(made))
        if case .counter(let handle) = found { return handle }
        return made
    }

    /// A counter with fractions. The name should end in `_total`.
    public func floatingPointCounter(
        _ name: String, help: String, labels: [(String, String)] = []
    ) -> FloatingPointCounterHandle {
        let made = FloatingPointCounterHandle()
        let found = register(name, help: help, kind: .counter, labels: labels, .floatingPointCounter(made))
        if case .floatingPointCounter(let handle) = found { return handle }
        return made
    }

    /// A gauge of whole numbers.
    public func gauge(_ name: String, help: String, labels: [(String, String)] = []) -> GaugeHandle {
        let made = GaugeHandle()
        let found = register(name, help: help, kind: .gauge, labels: labels, .gauge(made))
        if case .gauge(let handle) = found { return handle }
        return made
    }

    /// A gauge with fractions.
    public func floatingPointGauge(
        _ name: String, help: String, labels: [(String, String)] = []
    ) -> FloatingPointGaugeHandle {
        let made = FloatingPointGaugeHandle()
        let found = register(name, help: help, kind: .gauge, labels: labels, .floatingPointGauge(made))
        if case .floatingPointGauge(let handle) = found { return handle }
        return made
    }

    /// A histogram of durations, exposed in seconds. The name should end in `_seconds`.
    public func histogram(_ name: String, help: String, labels: [(String, String)] = []) -> HistogramHandle {
        histogram(name, help: help, labels: labels, buckets: .seconds)
    }

    func histogram(
        _ name: String, help: String, labels: [(String, String)], buckets: HistogramBuckets
    ) -> HistogramHandle {
        let made = HistogramHandle(buckets: buckets)
        let found = register(name, help: help, kind: .histogram, labels: labels, .histogram(made))
        if case .histogram(let handle) = found { return handle }
        return made
    }

    /// Runs before every scrape, for values that are looked up and not recorded. It must not take long and must not
    /// scrape.
    public func onScrape(_ collect: @escaping @Sendable () -> Void) {
        state.withLock { $0.collectors.append(collect) }
    }

    /// What stands in the registry for this name and these labels, which is `made` if nothing stood there; `nil` when
    /// it cannot be exposed.
    private func register(
        _ rawName: String, help: String, kind: MetricKind, labels: [(String, String)], _ made: SeriesHandle
    ) -> SeriesHandle? {
        let name = MetricName.metric(rawName)
        let labels = LabelSet(labels, kind: kind)
        let found: SeriesHandle? = state.withLock { state in
            guard let family = state.families[name] else {
                let samples = Self.sampleNames(name, kind)
                guard state.sampleNames.isDisjoint(with: samples), seriesLimit > 0 else { return nil }
                state.sampleNames.formUnion(samples)
                state.families[name] = MetricFamily(help: help, kind: kind, series: [labels: made])
                return made
            }
            guard family.kind == kind else { return nil }
            if let series = family.series[labels] { return series.isSameForm(as: made) ? series : nil }
            // The count of what was dropped must not itself be dropped.
            guard family.series.count < seriesLimit || name == Self.droppedName else { return nil }
            state.families[name]?.series[labels] = made
            return made
        }
        if found == nil { dropped.increment() }
        return found
    }

    static func sampleNames(_ name: String, _ kind: MetricKind) -> Set<String> {
        kind == .histogram ? [name, name + "_bucket", name + "_count", name + "_sum"] : [name]
    }
}
