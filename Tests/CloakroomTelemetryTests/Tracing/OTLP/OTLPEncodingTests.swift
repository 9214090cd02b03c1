import CloakroomCore
import Foundation
import TestSupport
import Testing
import Tracing

@testable import CloakroomTelemetry

@Suite("OTLP as a collector decodes it")
struct OTLPEncodingTests {
    private struct DescribedError: CustomStringConvertible {
        let description: String
    }

    @Test("All properties of a span arrive")
    func wholeSpan() async throws {
        let context = TraceContext(
            traceID: ID128(high: 0x0102_0304_0506_0708, low: 0x090a_0b0c_0d0e_0f10),
            spanID: 0x1112_1314_1516_1718, flags: 3)
        var span = FinishedSpan(
            name: "GET “video”", kind: .server, context: context, parentSpanID: 0xfffe_fdfc_fbfa_f9f8,
            startNanoseconds: 1_700_000_000_123_456_789, endNanoseconds: 1_700_000_000_987_654_321)
        span.traceState = "vendor=1,other=2"
        span.attributes = [
            "int32": .int32(-5), "int64": .int64(.max), "least": .int64(.min), "zero": .int64(0),
            "double": .double(0.5),
            "infinity": .double(-.infinity), "yes": .bool(true), "no": .bool(false), "string": .string("é"),
            "empty": .string(""), "words": .stringConvertible(DescribedError(description: "spoken")),
            "int32s": .int32Array([1, -1]), "int64s": .int64Array([300]), "doubles": .doubleArray([1.5, 0]),
            "bools": .boolArray([true, false]), "strings": .stringArray(["a", ""]), "none": .stringArray([]),
            "wordss": .stringConvertibleArray([DescribedError(description: "w")]),
            "long": .string(String(repeating: "x", count: 300)),
        ]
        span.events = [SpanEvent(name: "retry", at: Past(nanosecondsSinceEpoch: 77), attributes: ["reason": "reset"])]
        span.links = [TraceContext(traceID: ID128(high: 0, low: 0xab), spanID: 0xcd, flags: 1)]
        span.status = SpanStatus(code: .error, message: "may hold anything")
        span.droppedEvents = 2
        span.droppedLinks = 300
        let decoded = try await decoded(span)
        expect(
            decoded,
            equals: OTLPReceiver.Span(
                name: "GET “video”", kind: "server", traceID: "0102030405060708090a0b0c0d0e0f10",
                spanID: "1112131415161718", parentID: "fffefdfcfbfaf9f8", traceState: "vendor=1,other=2",
                // The flags of the trace, and the bits for a remote parent.
                flags: 0x303, start: 1_700_000_000_123_456_789, end: 1_700_000_000_987_654_321,
                attributes: [
                    "int32": "int -5", "int64": "int 9223372036854775807", "least": "int -9223372036854775808",
                    "zero": "int 0", "double": "double 0.5", "infinity": "double -inf", "yes": "bool True",
                    "no": "bool False", "string": "string é", "empty": "string ", "words": "string spoken",
                    "int32s": "[int 1, int -1]", "int64s": "[int 300]", "doubles": "[double 1.5, double 0.0]",
                    "bools": "[bool True, bool False]", "strings": "[string a, string ]", "none": "[]",
                    "wordss": "[string w]", "long": "string " + String(repeating: "x", count: 300),
                ],
                status: "error", events: ["retry 77 {'reason': 'string reset'}"],
                links: ["000000000000000000000000000000ab-00000000000000cd-1"], dropped: [0, 2, 300]))
    }

    @Test("A span with only a name has no parent, no status and no end before its start")
    func leastSpan() async throws {
        var span = ExporterFixture.span("least")
        span.startNanoseconds = 9
        let decoded = try await decoded(span)
        expect(decoded.parentID, equals: "")
        expect(decoded.status, equals: "unset")
        expect(decoded.start, equals: 9)
        expect(decoded.end, equals: 9)
        expect(decoded.flags, equals: 0x101)
        expect(decoded.dropped, equals: [0, 0, 0])
        expect(decoded.attributes.isEmpty && decoded.events.isEmpty && decoded.links.isEmpty)
    }

    @Test("Every kind and both statuses have their numbers")
    func kinds() async throws {
        for (kind, name) in [
            (SpanKind.internal, "internal"), (.server, "server"), (.client, "client"), (.producer, "producer"),
            (.consumer, "consumer"),
        ] {
            var span = ExporterFixture.span("a")
            span.kind = kind
            span.status = SpanStatus(code: .ok)
            let decoded = try await decoded(span)
            expect(decoded.kind, equals: name)
            expect(decoded.status, equals: "ok")
        }
    }

    @Test("Parent and child keep their ids, and dropped events and links are counted")
    func parentAndChild() async throws {
        try await OTLPReceiver.run { receiver in
            let tested = ExporterFixture(port: receiver.port)
            let tracer = W3CTracer(sampler: .alwaysOn, exporter: tested.exporter)
            tracer.withSpan("outer", ofKind: .server) { outer in
                for _ in 0..<130 { outer.addEvent("often") }
                for _ in 0..<129 { outer.addLink(outer) }
                tracer.withSpan("inner", ofKind: .client) { _ in }
            }
            let spans = try await tested.run { try await receiver.receives(requests: 1) }.flatMap(\.spans)
            try require(spans.map(\.name) == ["inner", "outer"])
            expect(spans[0].parentID, equals: spans[1].spanID)
            expect(spans[0].traceID, equals: spans[1].traceID)
            expect(spans[0].spanID != spans[1].spanID)
            // A client span's parent is local to this process.
            expect(spans[0].flags, equals: 0x103)
            expect(spans[1].parentID, equals: "")
            expect(spans[1].dropped, equals: [0, 2, 1])
        }
    }

    @Test(
        "The resource names the service, the process and the SDK; configured attributes override detected ones")
    func resource() async throws {
        let found = try await batch(attributes: []).resource
        expect(found["service.name"], equals: "string gateway")
        expect(found["service.version"], equals: "string 1.2.3")
        expect(found["telemetry.sdk.name"], equals: "string cloakroom")
        expect(found["telemetry.sdk.language"], equals: "string swift")
        expect(found["telemetry.sdk.version"], equals: "string 1.2.3")
        expect(found["process.pid"], equals: "int \(ProcessInfo.processInfo.processIdentifier)")
        expect(found["host.name"], equals: "string \(ProcessInfo.processInfo.hostName)")
        let instance = try require(found["service.instance.id"]?.dropFirst("string ".count))
        expect(UUID(uuidString: String(instance)) != nil)

        let given = try await batch(
            attributes: [
                .init(name: "deployment.environment.name", value: "test"), .init(name: "host.name", value: "first"),
                .init(name: "host.name", value: "second"), .init(name: "service.name", value: "other"),
                .init(name: "telemetry.sdk.name", value: "other"),
            ])
        expect(given.resource["deployment.environment.name"], equals: "string test")
        expect(given.resource["host.name"], equals: "string second")
        expect(given.resource["service.name"], equals: "string gateway")
        expect(given.resource["telemetry.sdk.name"], equals: "string cloakroom")
        expect(given.scope, equals: "cloakroom 1.2.3")
    }

    private struct Past: TracerInstant {
        let nanosecondsSinceEpoch: UInt64

        static func < (left: Self, right: Self) -> Bool { left.nanosecondsSinceEpoch < right.nanosecondsSinceEpoch }
    }

    private func batch(attributes: [NamedValue<String>]) async throws -> OTLPReceiver.Batch {
        try await OTLPReceiver.run { receiver in
            let tested = ExporterFixture(port: receiver.port, attributes: attributes)
            tested.export("a")
            return try await require(tested.run { try await receiver.receives(requests: 1) }.first)
        }
    }

    private func decoded(_ span: FinishedSpan) async throws -> OTLPReceiver.Span {
        try await OTLPReceiver.run { receiver in
            let tested = ExporterFixture(port: receiver.port)
            tested.exporter.export(span)
            return try await require(tested.run { try await receiver.receives(requests: 1) }.first?.spans.first)
        }
    }
}
