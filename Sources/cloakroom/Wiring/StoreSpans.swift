import CloakroomTelemetry
import Tracing

extension W3CTracer {
    /// A span of a call to the session store that is over, below the request that it was made for; none where that is
    /// not sampled. Stores need not know of traces that way.
    func recordStoreCall(_ operation: String, backend: String, isSuccess: Bool, nanoseconds: UInt64) {
        guard ServiceContext.current?.traceContext?.isSampled == true else { return }
        let end = UInt64(systemWallClock())
        recordFinished(
            "session_store \(operation)", kind: .client, start: end - min(nanoseconds, end), end: end,
            attributes: ["cloakroom.store.backend": .string(backend), "cloakroom.store.operation": .string(operation)],
            isError: !isSuccess)
    }
}
