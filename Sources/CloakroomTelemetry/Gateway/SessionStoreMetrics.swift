/// The metrics of a session store.
public struct SessionStoreMetrics: Sendable {
    /// `cloakroom_session_store_up`: 1 while the store is reachable, otherwise 0.
    public let up: GaugeHandle

    private let durations: [Call: HistogramHandle]

    private struct Call: Hashable {
        let operation: String
        let isSuccess: Bool
    }

    init(registry: PrometheusRegistry, backend: String, operations: [String]) {
        up = registry.gauge(
            "cloakroom_session_store_up", help: "Whether the session store is reachable.",
            labels: [("backend", backend)])
        var durations: [Call: HistogramHandle] = [:]
        for operation in operations {
            for isSuccess in [true, false] {
                durations[Call(operation: operation, isSuccess: isSuccess)] = registry.histogram(
                    "cloakroom_session_store_operation_duration_seconds",
                    help: "Duration of session store operations.",
                    labels: [
                        ("backend", backend), ("operation", operation), ("outcome", isSuccess ? "success" : "error"),
                    ])
            }
        }
        self.durations = durations
    }

    /// Records the result of an operation. Operations that were not registered are ignored.
    public func record(operation: String, isSuccess: Bool, nanoseconds: UInt64) {
        durations[Call(operation: operation, isSuccess: isSuccess)]?.record(nanoseconds: nanoseconds)
    }
}
