public import Tracing

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
