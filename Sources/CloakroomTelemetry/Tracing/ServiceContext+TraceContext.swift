public import Logging
public import Tracing

private enum TraceContextKey: ServiceContextKey {
    typealias Value = TraceContext
    static var nameOverride: String? { "cloakroom-trace-context" }
}

private enum TraceStateKey: ServiceContextKey {
    typealias Value = String
    static var nameOverride: String? { "cloakroom-trace-state" }
}

extension ServiceContext {
    /// The trace context of this operation.
    public var traceContext: TraceContext? {
        get { self[TraceContextKey.self] }
        set { self[TraceContextKey.self] = newValue }
    }

    /// The vendor-specific trace state: the value of `tracestate`.
    public var traceState: String? {
        get { self[TraceStateKey.self] }
        set { self[TraceStateKey.self] = newValue }
    }
}

extension Logger.MetadataProvider {
    /// Adds `trace_id` and `span_id` to log lines written within a trace.
    public static let traceContext = Logger.MetadataProvider {
        guard let context = ServiceContext.current?.traceContext else { return [:] }
        var span = LineBuffer(reserving: 16)
        span.appendHex(context.spanID)
        return ["trace_id": "\(context.traceID)", "span_id": "\(span.text)"]
    }
}
