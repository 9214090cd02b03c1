import Synchronization

@testable import CloakroomTelemetry

/// Keeps the spans that it is given.
final class SpanCollector: SpanExporter {
    private let spans = Mutex<[FinishedSpan]>([])

    func export(_ span: FinishedSpan) { spans.withLock { $0.append(span) } }

    var finished: [FinishedSpan] { spans.withLock { $0 } }
}
