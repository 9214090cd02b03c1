import Synchronization

extension PrometheusRegistry {
    /// Everything, in Prometheus' text format 0.0.4.
    public func exposition() -> [UInt8] {
        exposition(as: .text)
    }

    /// Everything, in the format that a scraper wants: OpenMetrics 1.0 where `Accept` names it and does not prefer plain
    /// text to it, and Prometheus' text format 0.0.4 for everybody else.
    ///
    /// - Parameter accept: The request's `Accept` (RFC 9110, section 12.5.1), several fields joined by commas.
    public func exposition(accept: String?) -> (contentType: String, body: [UInt8]) {
        let format = ExpositionFormat(accept: accept)
        return (format.contentType, exposition(as: format))
    }

    func exposition(as format: ExpositionFormat) -> [UInt8] {
        PrometheusExposition.render(collected().values.sorted { $0.name < $1.name }, as: format)
    }

    /// The families after everything that is looked up was looked up. The lock is held for taking the tables only: they
    /// are copied when somebody adds a series while they are being read.
    func collected() -> [String: MetricFamily] {
        let collectors = state.withLock { $0.collectors }
        for collect in collectors { collect() }
        return recorded()
    }

    /// The families with what is looked up as it was at the last scrape.
    func recorded() -> [String: MetricFamily] {
        state.withLock { $0.families }
    }
}
