import Foundation
import TestSupport
import Testing
import Tracing

@testable import CloakroomTelemetry

@Suite("W3C tracer")
struct W3CTracerTests {
    private struct Fields: Injector, Extractor {
        func inject(_ value: String, forKey key: String, into carrier: inout [String: String]) { carrier[key] = value }

        func extract(key: String, from carrier: [String: String]) -> String? { carrier[key] }
    }

    private struct Secret: Error, CustomStringConvertible {
        var description: String { "password is hunter2" }
    }

    private let collector = RecordedSpans()

    @Test("A span without a parent starts a trace; a span inside it is its child")
    func parentAndChild() throws {
        let tracer = W3CTracer(sampler: .alwaysOn, exporter: collector)
        tracer.withSpan("outer", ofKind: .server) { _ in
            tracer.withSpan("inner", ofKind: .client) { $0.attributes["k"] = "v" }
        }
        try require(collector.all.count == 2)
        let (inner, outer) = (collector.all[0], collector.all[1])
        expect(outer.name, equals: "outer")
        expect(outer.parentSpanID, equals: nil)
        expect(inner.parentSpanID, equals: outer.context.spanID)
        expect(inner.context.traceID, equals: outer.context.traceID)
        expect(inner.context.spanID != outer.context.spanID)
        expect(inner.kind, equals: .client)
        expect(inner.attributes.get("k"), equals: .string("v"))
        #expect(inner.endNanoseconds >= inner.startNanoseconds)
    }

    @Test("A span that is not sampled records nothing and still propagates its context")
    func unsampled() throws {
        let tracer = W3CTracer(sampler: .alwaysOff, exporter: collector)
        let span = tracer.startSpan("quiet", context: .topLevel)
        span.attributes["k"] = "v"
        span.end()
        expect(!span.isRecording)
        expect(span.attributes.isEmpty)
        expect(empty: collector.all)
        try expect(require(span.context.traceContext).isSampled, equals: false)
        var carrier: [String: String] = [:]
        tracer.inject(span.context, into: &carrier, using: Fields())
        expect(carrier["traceparent"]?.count, equals: 55)
    }

    @Test("An extracted context is continued, and injected with the new span's id")
    func propagation() throws {
        let tracer = W3CTracer(sampler: .alwaysOff.parentBased, exporter: collector)
        var context = ServiceContext.topLevel
        let incoming = [
            "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "vendor=1,other=2",
        ]
        tracer.extract(incoming, into: &context, using: Fields())
        let span = tracer.startSpan("op", context: context)
        var outgoing: [String: String] = [:]
        tracer.inject(span.context, into: &outgoing, using: Fields())
        span.end()
        let exported = try require(collector.all.first)
        expect(exported.parentSpanID, equals: 0x00f0_67aa_0ba9_02b7)
        expect(exported.context.traceID.description, equals: "4bf92f3577b34da6a3ce929d0e0e4736")
        expect(outgoing["tracestate"], equals: "vendor=1,other=2")
        expect(outgoing["traceparent"], equals: exported.context.traceparentText)
    }

    @Test("An invalid traceparent also discards its tracestate, and an invalid tracestate is discarded alone")
    func invalidCarriers() {
        let tracer = W3CTracer(sampler: .alwaysOn, exporter: collector)
        var context = ServiceContext.topLevel
        tracer.extract(["traceparent": "00-x", "tracestate": "a=1"], into: &context, using: Fields())
        expect(context.traceContext, equals: nil)
        expect(context.traceState, equals: nil)
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        for state in ["a=1\r\nset-cookie: x", "é=1", "", String(repeating: "a", count: 513)] {
            tracer.extract(["traceparent": good, "tracestate": state], into: &context, using: Fields())
            expect(context.traceContext != nil)
            expect(context.traceState, equals: nil)
        }
    }

    @Test("An error records its type in the span and not its text")
    func errors() throws {
        let tracer = W3CTracer(sampler: .alwaysOn, exporter: collector)
        #expect(throws: Secret.self) {
            try tracer.withSpan("op") { _ in throw Secret() }
        }
        let span = try require(collector.all.first)
        expect(span.status?.code, equals: .error)
        let event = try require(span.events.first)
        expect("\(event.attributes.get("exception.type") as Any)".contains("Secret"))
        expect(!"\(span)".contains("hunter2"))
    }

    @Test("A span ends once and does not change afterwards")
    func endsOnce() {
        let tracer = W3CTracer(sampler: .alwaysOn, exporter: collector)
        let span = tracer.startSpan("op", context: .topLevel)
        span.operationName = "renamed"
        span.end()
        span.operationName = "late"
        span.end()
        expect(collector.all.map(\.name), equals: ["renamed"])
    }

    @Test("Events and links are limited in number; links name their trace")
    func bounds() throws {
        let tracer = W3CTracer(sampler: .alwaysOn, exporter: collector)
        let linked = tracer.startSpan("linked", context: .topLevel)
        let span = tracer.startSpan("op", context: .topLevel)
        span.addLink(SpanLink(context: .topLevel, attributes: [:]))
        span.addLink(SpanLink(context: linked.context, attributes: [:]))
        for index in 0..<1_000 { span.addEvent(SpanEvent(name: "event \(index)")) }
        span.end()
        let exported = try require(collector.all.first)
        expect(exported.links, equals: [linked.context.traceContext].compactMap { $0 })
        expect(exported.events.count, equals: 128)
    }

    @Test("A finished span can be written to the log as one JSON line")
    func logExporter() async throws {
        let pipe = try LinePipe()
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: CounterHandle())
        let context = TraceContext(traceID: ID128(high: 1, low: 2), spanID: 3, flags: 1)
        var span = FinishedSpan(
            name: "GET \"video\"", kind: .server, context: context, parentSpanID: 4, startNanoseconds: 1_000_000_000,
            endNanoseconds: 1_002_500_000)
        span.attributes = ["http.response.status_code": 200, "ok": .bool(true), "list": .stringArray(["a", "b"])]
        span.status = SpanStatus(code: .error)
        span.events = [SpanEvent(name: "e")]
        span.links = [context]
        LogSpanExporter(writer: writer).export(span)
        writer.shutdown()
        let object = try await require(pipe.objects().first as? NSDictionary)
        let expected: NSDictionary = [
            "time": "1970-01-01T00:00:01.000Z", "logger": "span", "name": "GET \"video\"", "kind": "server",
            "trace_id": "00000000000000010000000000000002", "span_id": "0000000000000003",
            "parent_span_id": "0000000000000004", "duration_ms": 2.5, "status": "error",
            "attributes": ["http.response.status_code": 200, "ok": true, "list": ["a", "b"]], "events": ["e"],
            "links": ["00-00000000000000010000000000000002-0000000000000003-01"],
        ]
        expect(object, equals: expected)
    }
}
