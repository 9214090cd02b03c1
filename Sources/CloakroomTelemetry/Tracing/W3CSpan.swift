import Synchronization
public import Tracing

/// A span of ``W3CTracer``. One that is not sampled passes its context on and keeps nothing.
public final class W3CSpan: Tracing.Span {
    /// More events or links than this are not kept; OpenTelemetry's default limit.
    static let listLimit = 128

    private struct State {
        var span: FinishedSpan
        var hasEnded = false
    }

    /// The context that children and outgoing requests continue.
    public let context: ServiceContext
    /// Whether anything is kept.
    public let isRecording: Bool
    private let state: Mutex<State>
    private let exporter: any SpanExporter

    init(_ span: FinishedSpan, context: ServiceContext, exporter: any SpanExporter) {
        self.context = context
        self.exporter = exporter
        isRecording = span.context.isSampled
        state = Mutex(State(span: span))
    }

    /// The span's name.
    public var operationName: String {
        get { state.withLock { $0.span.name } }
        set { change { $0.name = newValue } }
    }

    /// What is known of the operation.
    public var attributes: SpanAttributes {
        get { state.withLock { $0.span.attributes } }
        set { change { $0.attributes = newValue } }
    }

    /// How it went.
    public func setStatus(_ status: SpanStatus) {
        change { $0.status = status }
    }

    /// Something happened.
    public func addEvent(_ event: SpanEvent) {
        change { span in
            if span.events.count < Self.listLimit { span.events.append(event) } else { span.droppedEvents += 1 }
        }
    }

    /// Another trace has to do with this one; a link without a trace is ignored.
    public func addLink(_ link: SpanLink) {
        guard let linked = link.context.traceContext else { return }
        change { span in
            if span.links.count < Self.listLimit { span.links.append(linked) } else { span.droppedLinks += 1 }
        }
    }

    /// Keeps the error's type only: its text may hold what does not belong into a trace.
    public func recordError<Instant: TracerInstant>(
        _ error: any Error, attributes: SpanAttributes, at instant: @autoclosure () -> Instant
    ) {
        guard isRecording else { return }
        var attributes = attributes
        attributes["exception.type"] = String(reflecting: type(of: error))
        addEvent(SpanEvent(name: "exception", at: instant(), attributes: attributes))
    }

    /// Ends the span and exports it. Only the first end counts, and nothing changes the span afterwards.
    public func end<Instant: TracerInstant>(at instant: @autoclosure () -> Instant) {
        guard isRecording else { return }
        let end = instant().nanosecondsSinceEpoch
        let finished: FinishedSpan? = state.withLock { state in
            guard !state.hasEnded else { return nil }
            state.hasEnded = true
            state.span.endNanoseconds = end
            return state.span
        }
        if let finished { exporter.export(finished) }
    }

    private func change(_ body: (inout FinishedSpan) -> Void) {
        guard isRecording else { return }
        state.withLock { state in
            if !state.hasEnded { body(&state.span) }
        }
    }
}
