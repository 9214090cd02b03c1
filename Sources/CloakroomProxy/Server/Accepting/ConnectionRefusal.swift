import CloakroomTelemetry

/// Why a connection is closed before anything was read from it but a PROXY header.
enum ConnectionRejection: Error, Equatable, CaseIterable {
    /// It does not begin with a PROXY header, where every connection has to.
    case proxyHeader
    /// It comes from somewhere whose PROXY headers are not believed.
    case proxySource
    /// Its client has as many connections as one may have.
    case connectionsPerAddress

    /// The name in metrics.
    var label: StaticString {
        switch self {
        case .proxyHeader: "proxy_header"
        case .proxySource: "proxy_source"
        case .connectionsPerAddress: "connections_per_address"
        }
    }
}

/// Counts refused connections by kind: a flood of them must not become a flood of log lines.
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
