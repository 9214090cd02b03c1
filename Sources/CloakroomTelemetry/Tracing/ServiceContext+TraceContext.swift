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
    /// The trace that this work belongs to.
    public var traceContext: TraceContext? {
        get { self[TraceContextKey.self] }
        set { self[TraceContextKey.self] = newValue }
    }

    /// What other tracing systems want passed on with it: the value of `tracestate`.
    public var traceState: String? {
        get { self[TraceStateKey.self] }
        set { self[TraceStateKey.self] = newValue }
    }
}

extension Logger.MetadataProvider {
    /// Adds `trace_id` and `span_id` to log lines that are written inside a trace.
    public static let traceContext = Logger.MetadataProvider {
        guard let context = ServiceContext.current?.traceContext else { return [:] }
        var span = LineBuffer(reserving: 16)
        span.appendHex(context.spanID)
        return ["trace_id": "\(context.traceID)", "span_id": "\(span.text)"]
    }
}
