import Synchronization

extension PrometheusRegistry {
    /// The content type of what ``exposition()`` returns.
    public static let textContentType = "text/plain; version=0.0.4; charset=utf-8"

    /// Everything, in Prometheus' text format 0.0.4.
    public func exposition() -> [UInt8] {
        PrometheusTextFormat.render(snapshot())
    }

    /// Everything as values, families sorted by name and series by labels; another exposition format starts here.
    func snapshot() -> [FamilySnapshot] {
        let collectors = state.withLock { $0.collectors }
        for collect in collectors { collect() }
        // The lock is held for copying the tables only; reading and sorting thousands of series happens outside it.
        let families = state.withLock { $0.families }
        return families.sorted { $0.key < $1.key }.compactMap { name, family in
            guard !family.series.isEmpty else { return nil }
            let series = family.series.map { SeriesSnapshot(labels: $0.key.text, value: $0.value.value) }
            return FamilySnapshot(
                name: name, help: family.help, kind: family.kind, series: series.sorted { $0.labels < $1.labels })
        }
    }
}
