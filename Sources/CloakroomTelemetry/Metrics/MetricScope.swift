import Synchronization

/// Registers series that have labels in common, and remembers them: ``close()`` removes them when the object that they
/// describe no longer exists. Equal names and labels share their series, also between scopes.
final class MetricScope: Sendable {
    /// The enumeration of a label's values: one series each is exposed from the start.
    typealias Value = CaseIterable & Hashable & RawRepresentable<String> & Sendable

    typealias Labels = [(String, String)]

    private let registry: PrometheusRegistry
    private let labels: Labels
    private let handles = Mutex<[any AnyObject & Sendable]>([])

    /// - Parameter labels: The labels of all series.
    init(_ registry: PrometheusRegistry, _ labels: Labels = []) {
        self.registry = registry
        self.labels = labels
    }

    /// Removes all series from the exposition. Their handles keep working.
    func close() {
        for handle in handles.withLock({ $0 }) { registry.remove(handle) }
    }

    func counter(_ name: String, help: String, _ labels: Labels = []) -> CounterHandle {
        remember(registry.counter(name, help: help, labels: self.labels + labels))
    }

    func gauge(_ name: String, help: String, _ labels: Labels = []) -> GaugeHandle {
        remember(registry.gauge(name, help: help, labels: self.labels + labels))
    }

    func floatingPointGauge(_ name: String, help: String) -> FloatingPointGaugeHandle {
        remember(registry.floatingPointGauge(name, help: help, labels: labels))
    }

    func histogram(_ name: String, help: String, _ labels: Labels = []) -> HistogramHandle {
        remember(registry.histogram(name, help: help, labels: self.labels + labels))
    }

    /// A counter for each value of a label.
    func counters<One: Value>(
        _ name: String, help: String, by label: String, _ labels: Labels = []
    ) -> [One: CounterHandle] {
        Self.each(label, labels) { counter(name, help: help, $0) }
    }

    /// A counter for each combination of the values of two labels.
    func counters<One: Value, Other: Value>(
        _ name: String, help: String, by label: String, _ other: String
    ) -> [One: [Other: CounterHandle]] {
        Self.each(label, []) { counters(name, help: help, by: other, $0) }
    }

    func gauges<One: Value>(_ name: String, help: String, by label: String) -> [One: GaugeHandle] {
        Self.each(label, []) { gauge(name, help: help, $0) }
    }

    func histograms<One: Value>(_ name: String, help: String, by label: String) -> [One: HistogramHandle] {
        Self.each(label, []) { histogram(name, help: help, $0) }
    }

    private func remember<Handle: AnyObject & Sendable>(_ handle: Handle) -> Handle {
        handles.withLock { $0.append(handle) }
        return handle
    }

    private static func each<One: Value, Handle>(
        _ label: String, _ labels: Labels, _ make: (Labels) -> Handle
    ) -> [One: Handle] {
        Dictionary(uniqueKeysWithValues: One.allCases.map { ($0, make(labels + [(label, $0.rawValue)])) })
    }
}

/// A gauge for each state of an object: 1 for the current state, 0 for the others.
struct StateGauges<State: MetricScope.Value>: Sendable {
    private let gauges: [State: GaugeHandle]

    init(_ scope: MetricScope, _ name: String, help: String) {
        gauges = scope.gauges(name, help: help, by: "state")
    }

    /// The current state; `nil` if none was set. Series that exist already keep theirs.
    var current: State? { gauges.first { $0.value.value != 0 }?.key }

    /// Sets the current state. The gauges are not updated atomically, so calls for one object must be serialized. A
    /// concurrent scrape may see two states at 1, but never none.
    func set(_ state: State) {
        gauges[state]?.set(1)
        for (other, gauge) in gauges where other != state { gauge.set(0) }
    }
}
