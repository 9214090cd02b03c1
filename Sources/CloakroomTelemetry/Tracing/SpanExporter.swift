public import Tracing

/// A finished, sampled span.
public struct FinishedSpan: Sendable {
    /// The name of the operation.
    public var name: String
    /// Server, client or internal.
    public var kind: SpanKind
    /// The trace id and the span id.
    public var context: TraceContext
    /// `nil` for the first span of a trace.
    public var parentSpanID: UInt64?
    /// Nanoseconds since 1970-01-01T00:00:00Z.
    public var startNanoseconds: UInt64
    /// Nanoseconds since 1970-01-01T00:00:00Z.
    public var endNanoseconds: UInt64
    /// The attributes, named by OpenTelemetry's conventions; never a query string, token or cookie.
    public var attributes: SpanAttributes = [:]
    /// `nil` if no status was set.
    public var status: SpanStatus?
    /// The events.
    public var events: [SpanEvent] = []
    /// The links to other traces.
    public var links: [TraceContext] = []
    /// The number of dropped events.
    public var droppedEvents = 0
    /// The number of dropped links.
    public var droppedLinks = 0
    /// The vendor-specific trace state: the value of `tracestate`.
    public var traceState: String?

    /// Whether the parent is a span of another process. Only server spans have remote parents; all other spans of the
    /// gateway have local ones.
    var hasRemoteParent: Bool { parentSpanID != nil && (kind == .server || kind == .consumer) }
}

/// A consumer of finished spans. Called wherever a span ends, including event loops, so it must not block.
public protocol SpanExporter: Sendable {
    func export(_ span: FinishedSpan)
}

/// Discards every span.
public struct NoOpSpanExporter: SpanExporter {
    /// Does nothing.
    public func export(_ span: FinishedSpan) {}
}
