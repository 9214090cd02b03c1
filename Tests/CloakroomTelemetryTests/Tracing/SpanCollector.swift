import Synchronization

@testable import CloakroomTelemetry

/// Records the spans that it receives.
final class SpanCollector: SpanExporter {
    private let spans = Mutex<[FinishedSpan]>([])

    func export(_ span: FinishedSpan) { spans.withLock { $0.append(span) } }

    var finished: [FinishedSpan] { spans.withLock { $0 } }
}
