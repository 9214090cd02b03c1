import CloakroomTelemetry

/// Reason that a connection is closed before a request is read.
enum ConnectionRejection: Error, Equatable, CaseIterable {
    /// The required PROXY header is missing or invalid.
    case proxyHeader
    /// The source is not trusted to send PROXY headers.
    case proxySource
    /// The client has reached its maximum number of connections.
    case connectionsPerAddress

    /// The value of the metric label.
    var label: StaticString {
        switch self {
        case .proxyHeader: "proxy_header"
        case .proxySource: "proxy_source"
        case .connectionsPerAddress: "connections_per_address"
        }
    }
}

/// Counts rejected connections by reason. They are not logged: a flood of connections must not flood the log.
struct RejectionCounters: Sendable {
    private let counters: [ConnectionRejection: CounterHandle]

    init(_ metrics: GatewayMetrics) {
        counters = Dictionary(
            uniqueKeysWithValues: ConnectionRejection.allCases.map { ($0, metrics.wireRejections(kind: $0.label)) })
    }

    func count(_ rejection: ConnectionRejection) {
        counters[rejection]?.increment()
    }
}
