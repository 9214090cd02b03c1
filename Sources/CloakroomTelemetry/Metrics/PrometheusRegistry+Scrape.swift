import Synchronization

extension PrometheusRegistry {
    /// All metrics in Prometheus' text format 0.0.4.
    public func exposition() -> [UInt8] {
        exposition(as: .text)
    }

    /// All metrics in the format selected by `Accept`: OpenMetrics 1.0 if it is named and plain text is not preferred,
    /// otherwise Prometheus' text format 0.0.4.
    ///
    /// - Parameter accept: The request's `Accept` (RFC 9110, section 12.5.1); several fields are joined by commas.
    public func exposition(accept: String?) -> (contentType: String, body: [UInt8]) {
        let format = ExpositionFormat(accept: accept)
        return (format.contentType, exposition(as: format))
    }

    func exposition(as format: ExpositionFormat) -> [UInt8] {
        PrometheusExposition.render(collected().values.sorted { $0.name < $1.name }, as: format)
    }

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
