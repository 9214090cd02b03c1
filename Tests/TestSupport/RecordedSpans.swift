package import CloakroomTelemetry
import Synchronization

/// An exporter that records the finished spans.
package final class RecordedSpans: SpanExporter {
    private let spans = Mutex<[FinishedSpan]>([])

    /// Creates an exporter without spans.
    package init() {}

    /// The spans so far, in the order of their ends.
    package var all: [FinishedSpan] { spans.withLock { $0 } }

    package func export(_ span: FinishedSpan) { spans.withLock { $0.append(span) } }
}
