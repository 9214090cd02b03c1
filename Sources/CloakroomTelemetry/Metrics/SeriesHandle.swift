/// The handle of a series.
enum SeriesHandle: Sendable {
    case counter(CounterHandle)
    case floatingPointCounter(FloatingPointCounterHandle)
    case gauge(GaugeHandle)
    case floatingPointGauge(FloatingPointGaugeHandle)
    case histogram(HistogramHandle)

    var object: AnyObject {
        switch self {
        case .counter(let handle): handle
        case .floatingPointCounter(let handle): handle
        case .gauge(let handle): handle
        case .floatingPointGauge(let handle): handle
        case .histogram(let handle): handle
        }
    }

    var snapshot: MetricsSnapshot.Value {
        switch self {
        case .counter(let handle): .number(Double(handle.exposed))
        case .floatingPointCounter(let handle): .number(handle.value)
        case .gauge(let handle): .number(Double(handle.value))
        case .floatingPointGauge(let handle): .number(handle.value)
        case .histogram(let handle): .histogram(handle.snapshot())
        }
    }

    /// Whether this handle can be returned for a request for `other`. Two histograms of different units cannot share a
    /// series.
    func isSameForm(as other: SeriesHandle) -> Bool {
        switch (self, other) {
        case (.counter, .counter), (.floatingPointCounter, .floatingPointCounter), (.gauge, .gauge),
            (.floatingPointGauge, .floatingPointGauge):
            true
        case (.histogram(let one), .histogram(let two)):
            one.buckets == two.buckets
        default:
            false
        }
    }
}
