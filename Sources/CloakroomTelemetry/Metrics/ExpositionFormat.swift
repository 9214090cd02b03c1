/// The format of a scrape response.
enum ExpositionFormat: Sendable, CaseIterable {
    /// Prometheus' text format, version 0.0.4.
    case text
    /// OpenMetrics, version 1.0.0.
    case openMetrics

    /// The value of `Content-Type`.
    var contentType: String {
        switch self {
        case .text: "text/plain; version=0.0.4; charset=utf-8"
        case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
        }
    }
}
