/// What a family is, in Prometheus' words.
enum MetricKind: String, Sendable {
    case counter
    case gauge
    case histogram
}
