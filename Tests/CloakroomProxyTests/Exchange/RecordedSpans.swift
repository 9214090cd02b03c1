import CloakroomTelemetry
import Synchronization

/// An exporter that keeps the exported spans.
final class RecordedSpans: SpanExporter {
    private let spans = Mutex<[FinishedSpan]>([])

    var all: [FinishedSpan] { spans.withLock { $0 } }

    func export(_ span: consuming FinishedSpan) {
        let span = span
        spans.withLock { $0.append(span) }
    }
}
