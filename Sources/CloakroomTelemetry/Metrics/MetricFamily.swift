/// One series: its labels, and what counts for it.
struct MetricSeries: Sendable {
    let labels: LabelSet
    let handle: SeriesHandle
}

/// All series of one name.
struct MetricFamily: Sendable {
    /// As the text format has it: a counter's ends in `_total`.
    let name: String
    let help: String
    let kind: MetricKind
    /// In the order of exposition, so that a scrape has nothing to sort.
    private(set) var series: [MetricSeries] = []

    init(name: String, help: String, kind: MetricKind) {
        self.name = name
        self.help = help
        self.kind = kind
    }

    /// What stands for these labels, which is `made` if nothing stood there; `nil` when something of another form does, or
    /// when there are `limit` series already.
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

    /// Removes the series of a handle. Returns whether none is left.
    mutating func removeLeavingNone(_ handle: AnyObject) -> Bool {
        series.removeAll { $0.handle.object === handle }
        return series.isEmpty
    }

    /// The first place that is not before these labels.
    private func position(of labels: LabelSet) -> Int {
        var (low, high) = (0, series.count)
        while low < high {
            let middle = (low + high) / 2
            if series[middle].labels < labels { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
