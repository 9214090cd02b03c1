public import Tracing

/// A swift-distributed-tracing tracer for W3C Trace Context. Sampled spans are exported when they end; other spans cost
/// one object and propagate their context.
///
/// Folder `Tracing/`: trace contexts, the sampling decision, and spans.
public struct W3CTracer: Tracer {
    private static let traceparentField = "traceparent"
    private static let tracestateField = "tracestate"

    private let sampler: TraceSampler
    private let exporter: any SpanExporter
    private let ids: TraceIDSource

    /// Creates a tracer.
    public init(sampler: TraceSampler, exporter: any SpanExporter, ids: TraceIDSource = TraceIDSource()) {
        self.sampler = sampler
        self.exporter = exporter
        self.ids = ids
    }

    /// The context of a new span below `parent`, or of a new trace.
    public func childContext(of parent: TraceContext?) -> TraceContext {
        let traceID = parent?.traceID ?? ids.next128()
        // Ids of the gateway are random; the randomness flag of a parent's trace id is kept.
        let random = parent.map { $0.flags & TraceContext.randomFlag } ?? TraceContext.randomFlag
        let sampled = sampler.isSampled(traceID: traceID, parent: parent) ? TraceContext.sampledFlag : 0
        return TraceContext(traceID: traceID, spanID: ids.next64(), flags: random | sampled)
    }

    /// Starts a span in the context's trace, or a new trace if there is none.
    public func startSpan<Instant: TracerInstant>(
        _ operationName: String, context: @autoclosure () -> ServiceContext, ofKind kind: SpanKind,
        at instant: @autoclosure () -> Instant, function: String, file fileID: String, line: UInt
    ) -> W3CSpan {
        var context = context()
        let parent = context.traceContext
        let child = childContext(of: parent)
        context.traceContext = child
        let start = instant().nanosecondsSinceEpoch
        var span = FinishedSpan(
            name: operationName, kind: kind, context: child,
            parentSpanID: parent.flatMap { $0.spanID == 0 ? nil : $0.spanID }, startNanoseconds: start,
            endNanoseconds: start)
        span.traceState = context.traceState
        return W3CSpan(span, context: context, exporter: exporter)
    }

    /// Exporters flush on their own.
    public func forceFlush() {}

    /// Extracts `traceparent` and `tracestate` from a carrier. An invalid `traceparent` is ignored, and without a valid
    /// one `tracestate` is ignored too (W3C Trace Context, section 4.3).
    public func extract<Carrier, Extract: Extractor>(
        _ carrier: Carrier, into context: inout ServiceContext, using extractor: Extract
    ) where Extract.Carrier == Carrier {
        guard let text = extractor.extract(key: Self.traceparentField, from: carrier),
            let parent = TraceContext(traceparent: text.utf8.span)
        else { return }
        context.traceContext = parent
        context.traceState = extractor.extract(key: Self.tracestateField, from: carrier).flatMap { state in
            Self.isAcceptable(tracestate: state) ? state : nil
        }
    }

    /// Injects `traceparent` and `tracestate` into a carrier.
    public func inject<Carrier, Inject: Injector>(
        _ context: ServiceContext, into carrier: inout Carrier, using injector: Inject
    ) where Inject.Carrier == Carrier {
        guard let trace = context.traceContext else { return }
        injector.inject(trace.traceparentText, forKey: Self.traceparentField, into: &carrier)
        if let state = context.traceState {
            injector.inject(state, forKey: Self.tracestateField, into: &carrier)
        }
    }

    /// The value is forwarded unchanged, so it must be a valid field value: visible ASCII, at most 512 bytes, the
    /// length that all implementations must support.
    private static func isAcceptable(tracestate: String) -> Bool {
        let bytes = tracestate.utf8
        return !bytes.isEmpty && bytes.count <= 512
            && bytes.allSatisfy { (0x20...0x7e).contains($0) || $0 == UInt8(ascii: "\t") }
    }
}

extension Tracer {
    /// Records a span of a finished operation as a child of the current trace, if there is one and it is sampled.
    ///
    /// - Parameters:
    ///   - start: The start time, in nanoseconds since 1970-01-01T00:00:00Z.
    ///   - end: The end time, in the same unit.
    ///   - isError: Whether the operation failed.
    public func recordFinished(
        _ name: String, kind: SpanKind, start: UInt64, end: UInt64, attributes: SpanAttributes = [:],
        isError: Bool = false
    ) {
        guard let context = ServiceContext.current, context.traceContext?.isSampled == true else { return }
        let span = startSpan(name, context: context, ofKind: kind, at: RecordedInstant(nanosecondsSinceEpoch: start))
        span.attributes.merge(attributes)
        if isError { span.setStatus(SpanStatus(code: .error)) }
        span.end(at: RecordedInstant(nanosecondsSinceEpoch: end))
    }
}

/// A time measured earlier.
private struct RecordedInstant: TracerInstant {
    let nanosecondsSinceEpoch: UInt64

    static func < (left: RecordedInstant, right: RecordedInstant) -> Bool {
        left.nanosecondsSinceEpoch < right.nanosecondsSinceEpoch
    }
}
