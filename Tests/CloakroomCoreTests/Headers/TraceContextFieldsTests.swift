import CloakroomCore
import CloakroomWire
import NIOCore
import TestSupport
import Testing

@Suite("The trace context of a trusted peer")
struct TraceContextFieldsTests {
    private func read(_ lines: String) throws -> (parent: String?, state: String) {
        let head = try RequestHead.with(lines)
        let fields = TraceContextFields.read(head)
        var buffer = ByteBuffer()
        buffer.writeHead(reserving: 256) { fields.writeTracestate(of: head, into: &$0) }
        return (head.text(fields.parent), String(buffer: buffer))
    }

    @Test("W3C Trace Context §3.3.1: several tracestate fields are joined in order")
    func states() throws {
        let one = try read("traceparent: p\r\ntracestate: a=1")
        expect(one.parent, equals: "p")
        expect(one.state, equals: "tracestate: a=1\r\n")
        let several = try read("tracestate: a=1,b=2\r\nA: b\r\nTraceparent: p\r\nTracestate:\r\ntracestate: c=3")
        expect(several.state, equals: "tracestate: a=1,b=2,c=3\r\n")
    }

    @Test(
        "W3C Trace Context §3.2: without exactly one traceparent both fields are ignored, and an empty tracestate always",
        arguments: [
            ("tracestate: a=1", nil), ("traceparent: p\r\ntraceparent: p\r\ntracestate: a=1", nil), ("A: b", nil),
            ("traceparent: p", "p"), ("traceparent: p\r\ntracestate:", "p"),
        ] as [(String, String?)])
    func noState(lines: String, parent: String?) throws {
        let result = try read(lines)
        expect(result.parent, equals: parent)
        expect(empty: result.state)
    }
}
