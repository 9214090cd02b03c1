/// One series: its labels and its handle.
struct MetricSeries: Sendable {
    let labels: LabelSet
    let handle: SeriesHandle
}

/// All series of one name.
struct MetricFamily: Sendable {
    /// The name in the text format: a counter's ends in `_total`.
    let name: String
    let help: String
    let kind: MetricKind
    /// Sorted in the order of exposition, so a scrape does not sort.
    private(set) var series: [MetricSeries] = []

    /// The handle for these labels; inserts `made` if there is none. `nil` if a handle of another kind exists or the
    /// family has `limit` series.
    mutating func series(
        for labels: LabelSet, kind: MetricKind, orInsert made: SeriesHandle, limit: Int
    ) -> SeriesHandle? {
        guard kind == self.kind else { return nil }
        let position = position(of: labels)
        if position < series.count, series[position].labels == labels {
            let found = series[position].handle
            return found.isSameForm(as: made) ? found : nil
        }
        guard series.count < limit else { return nil }
        series.insert(MetricSeries(labels: labels, handle: made), at: position)
        return made
    }

    /// Removes the series of a handle. Returns whether the family is empty.
    mutating func removeLeavingNone(_ handle: AnyObject) -> Bool {
        series.removeAll { $0.handle.object === handle }
        return series.isEmpty
    }

    /// The insertion index for these labels.
    private func position(of labels: LabelSet) -> Int {
        var (low, high) = (0, series.count)
        while low < high {
            let middle = (low + high) / 2
            if series[middle].labels < labels { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

/// The Prometheus type of a family.
enum MetricKind: String, Sendable {
    case counter
    case gauge
    case histogram
}

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
