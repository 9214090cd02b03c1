import Synchronization
public import Tracing

/// A span of ``W3CTracer``. An unsampled span only propagates its context.
public final class W3CSpan: Tracing.Span {
    /// The maximum number of events and of links; OpenTelemetry's default.
    static let listLimit = 128

    private struct State {
        var span: FinishedSpan
        var hasEnded = false
    }

    /// The context for children and outgoing requests.
    public let context: ServiceContext
    /// Whether the span is recorded.
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

    /// The attributes.
    public var attributes: SpanAttributes {
        get { state.withLock { $0.span.attributes } }
        set { change { $0.attributes = newValue } }
    }

    /// Sets the status.
    public func setStatus(_ status: SpanStatus) {
        change { $0.status = status }
    }

    /// Adds an event.
    public func addEvent(_ event: SpanEvent) {
        change { span in
            if span.events.count < Self.listLimit { span.events.append(event) } else { span.droppedEvents += 1 }
        }
    }

    /// Adds a link to another trace; a link without a trace is ignored.
    public func addLink(_ link: SpanLink) {
        guard let linked = link.context.traceContext else { return }
        change { span in
            if span.links.count < Self.listLimit { span.links.append(linked) } else { span.droppedLinks += 1 }
        }
    }

    /// Records only the type of the error, because its text may contain sensitive data.
    public func recordError<Instant: TracerInstant>(
        _ error: any Error, attributes: SpanAttributes, at instant: @autoclosure () -> Instant
    ) {
        guard isRecording else { return }
        var attributes = attributes
        attributes["exception.type"] = String(reflecting: type(of: error))
        addEvent(SpanEvent(name: "exception", at: instant(), attributes: attributes))
    }

    /// Ends and exports the span. Only the first call has an effect; the span cannot be changed afterwards.
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
