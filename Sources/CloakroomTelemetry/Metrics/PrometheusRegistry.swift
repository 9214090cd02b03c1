import Synchronization

/// Every metric of the process. Handles record without it; its lock is taken only when a handle is asked for and at a
/// scrape. Asking again for the same name and labels gives the same handle.
///
/// Nothing a caller does makes it fail: a series beyond the cap, a name that is taken by another kind, all get a handle
/// that works and is not exposed, and are counted in `cloakroom_telemetry_dropped_total{signal="metrics"}`.
public final class PrometheusRegistry: Sendable {
    struct State {
        var families: [String: MetricFamily] = [:]
        /// Every name in use, as ``MetricName/reservedNames(_:_:)`` has it.
        var claimedNames: Set<String> = []
        var collectors: [@Sendable () -> Void] = []
    }

    static let droppedName = "cloakroom_telemetry_dropped_total"
    static let droppedHelp = "Telemetry that was not kept, by signal."

    let state = Mutex(State())
    /// Counts the handles that were given out unexposed.
    let dropped: CounterHandle
    private let seriesLimit: Int

    /// How many series one family may have unless told otherwise: 500 routes with 10 outcomes each, twice.
    public static let defaultSeriesLimit = 10_000

    /// - Parameter seriesLimit: how many series one family may have.
    public init(seriesLimit: Int = defaultSeriesLimit) {
        self.seriesLimit = seriesLimit
        dropped = CounterHandle()
        state.withLock { state in
            let labels = LabelSet([("signal", "metrics")], kind: .counter)
            var family = MetricFamily(name: Self.droppedName, help: Self.droppedHelp, kind: .counter)
            _ = family.series(for: labels, kind: .counter, orInsert: .counter(dropped), limit: 1)
            state.families[Self.droppedName] = family
            state.claimedNames = MetricName.reservedNames(Self.droppedName, .counter)
        }
    }

    /// A counter of whole numbers. The name should end in `_total`; that is added where it is missing.
    public func counter(_ name: String, help: String, labels: [(String, String)] = []) -> CounterHandle {
        let made = CounterHandle()
        let found = register(name, help: help, kind: .counter, labels: labels, .counter(made))
        if case .counter(let handle) = found { return handle }
        return made
    }

    /// A counter with fractions. The name should end in `_total`; that is added where it is missing.
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
        let name = MetricName.family(rawName, kind)
        let labels = LabelSet(labels, kind: kind)
        // The count of what was dropped must not itself be dropped.
        let limit = name == Self.droppedName ? .max : seriesLimit
        let found: SeriesHandle? = state.withLock { state in
            if state.families[name] == nil {
                let names = MetricName.reservedNames(name, kind)
                guard state.claimedNames.isDisjoint(with: names), limit > 0 else { return nil }
                state.claimedNames.formUnion(names)
                state.families[name] = MetricFamily(name: name, help: help, kind: kind)
            }
            // In place: thousands of series are not copied for each one that is added.
            return state.families[name]?.series(for: labels, kind: kind, orInsert: made, limit: limit)
        }
        if found == nil { dropped.increment() }
        return found
    }

    /// Takes the series of a handle off the exposition, for a thing that is no longer there. The handle goes on working,
    /// and whoever asks for the same labels again begins a new series. Everybody who was given this handle shares its
    /// series, so only its last user may remove it. A family goes with its last series, and its name is free again.
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
