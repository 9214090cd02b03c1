/// How a store of sessions does.
public struct SessionStoreMetrics: Sendable {
    /// `cloakroom_session_store_up`: 1 while it can be reached, else 0.
    public let up: GaugeHandle

    private let durations: [Call: HistogramHandle]

    private struct Call: Hashable {
        let operation: String
        let isSuccess: Bool
    }

    init(registry: PrometheusRegistry, backend: String, operations: [String]) {
        up = registry.gauge(
            "cloakroom_session_store_up", help: "Whether the session store can be reached.",
            labels: [("backend", backend)])
        var durations: [Call: HistogramHandle] = [:]
        for operation in operations {
            for isSuccess in [true, false] {
                durations[Call(operation: operation, isSuccess: isSuccess)] = registry.histogram(
                    "cloakroom_session_store_operation_duration_seconds",
                    help: "Time that the session store took for an operation.",
                    labels: [
                        ("backend", backend), ("operation", operation), ("outcome", isSuccess ? "success" : "error"),
                    ])
            }
        }
        self.durations = durations
    }

    /// The store has answered, or failed to. Operations that were not named before are not recorded.
    public func record(operation: String, isSuccess: Bool, nanoseconds: UInt64) {
        durations[Call(operation: operation, isSuccess: isSuccess)]?.record(nanoseconds: nanoseconds)
    }
}
