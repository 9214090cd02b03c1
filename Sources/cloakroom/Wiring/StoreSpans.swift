import CloakroomTelemetry
import Tracing

extension W3CTracer {
    /// Records the span of a completed session store call as a child of the request's span, if the request is sampled.
    /// Stores themselves do not depend on tracing.
    func recordStoreCall(_ operation: String, backend: String, isSuccess: Bool, nanoseconds: UInt64) {
        guard ServiceContext.current?.traceContext?.isSampled == true else { return }
        let end = UInt64(systemWallClock())
        recordFinished(
            "session_store \(operation)", kind: .client, start: end - min(nanoseconds, end), end: end,
            attributes: ["cloakroom.store.backend": .string(backend), "cloakroom.store.operation": .string(operation)],
            isError: !isSuccess)
    }
}
