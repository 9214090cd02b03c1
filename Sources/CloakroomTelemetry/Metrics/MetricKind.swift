/// The Prometheus type of a family.
enum MetricKind: String, Sendable {
    case counter
    case gauge
    case histogram
}
