public import Tracing

/// A span that has ended and was sampled.
public struct FinishedSpan: Sendable {
    /// The operation's name.
    public var name: String
    /// Server, client or internal.
    public var kind: SpanKind
    /// The trace and the span's own id.
    public var context: TraceContext
    /// `nil` for the first span of a trace.
    public var parentSpanID: UInt64?
    /// Nanoseconds since 1970-01-01T00:00:00Z.
    public var startNanoseconds: UInt64
    /// Nanoseconds since 1970-01-01T00:00:00Z.
    public var endNanoseconds: UInt64
    /// By OpenTelemetry's conventions; never a query string, token or cookie.
    public var attributes: SpanAttributes
    /// `nil` when nobody set one.
    public var status: SpanStatus?
    /// What happened meanwhile.
    public var events: [SpanEvent]
    /// Other traces that this one has to do with.
    public var links: [TraceContext]
    /// How many events were not kept.
    public var droppedEvents = 0
    /// How many links were not kept.
    public var droppedLinks = 0
    /// What other tracing systems want passed on: the value of `tracestate`.
    public var traceState: String?

    /// A span without attributes, status, events and links; set those it has.
    public init(
        name: String, kind: SpanKind, context: TraceContext, parentSpanID: UInt64?, startNanoseconds: UInt64,
        endNanoseconds: UInt64
    ) {
        self.name = name
        self.kind = kind
        self.context = context
        self.parentSpanID = parentSpanID
        self.startNanoseconds = startNanoseconds
        self.endNanoseconds = endNanoseconds
        attributes = [:]
        status = nil
        events = []
        links = []
    }

    /// Whether the parent is another process's span. A server's parent is on the other side of the wire, and every other
    /// span of the gateway's is below one of its own.
    var hasRemoteParent: Bool { parentSpanID != nil && (kind == .server || kind == .consumer) }
}

/// Takes finished spans away. It is called wherever a span ends, event loops included, and must not wait.
public protocol SpanExporter: Sendable {
    /// Takes over one span.
    func export(_ span: FinishedSpan)
}

/// Forgets every span.
public struct NoOpSpanExporter: SpanExporter {
    /// There is nothing to set.
    public init() {}

    /// Does nothing.
    public func export(_ span: FinishedSpan) {}
}
