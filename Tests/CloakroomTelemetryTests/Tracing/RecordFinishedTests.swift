import TestSupport
import Testing
import Tracing

@testable import CloakroomTelemetry

@Suite("Spans of completed operations")
struct RecordFinishedTests {
    private let collector = RecordedSpans()

    @Test("The span is a child of the current trace, with the measured times")
    func child() throws {
        let tracer = W3CTracer(sampler: .alwaysOn, exporter: collector)
        let context = tracer.withSpan("outer") { outer in
            (tracer as any Tracer).recordFinished(
                "read", kind: .client, start: 1_000, end: 3_000, attributes: ["a": 1], isError: true)
            return outer.context
        }
        let span = try require(collector.all.first)
        expect(span.name, equals: "read")
        expect(span.kind, equals: .client)
        expect(span.parentSpanID, equals: context.traceContext?.spanID)
        expect(span.context.traceID, equals: context.traceContext?.traceID)
        expect((span.startNanoseconds, span.endNanoseconds) == (1_000, 3_000))
        expect(span.attributes.get("a"), equals: .int64(1))
        expect(span.status?.code, equals: .error)
    }

    @Test("Without a sampled current trace no span is created")
    func none() {
        let always = W3CTracer(sampler: .alwaysOn, exporter: collector)
        always.recordFinished("read", kind: .client, start: 1, end: 2)
        W3CTracer(sampler: .alwaysOff, exporter: collector).withSpan("outer") { _ in
            always.recordFinished("read", kind: .client, start: 1, end: 2)
        }
        expect(empty: collector.all)
    }
}
