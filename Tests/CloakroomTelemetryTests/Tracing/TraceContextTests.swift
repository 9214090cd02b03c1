import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("traceparent")
struct TraceContextTests {
    static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    static let span = "00f067aa0ba902b7"

    private func parse(_ text: String) -> TraceContext? {
        TraceContext(traceparent: Array(text.utf8).span)
    }

    @Test(
        "Valid values are parsed",
        arguments: [
            ("00-\(trace)-\(span)-01", 0x01),
            ("00-\(trace)-\(span)-00", 0x00),
            ("00-\(trace)-\(span)-03", 0x03),
            // Flags that version 00 does not define are not propagated.
            ("00-\(trace)-\(span)-ff", 0x03),
            // A future version may be longer, and only its sampled flag is defined.
            ("01-\(trace)-\(span)-01", 0x01),
            ("cc-\(trace)-\(span)-03-what-the-future-holds", 0x01),
            ("fe-\(trace)-\(span)-00-", 0x00),
        ] as [(String, UInt8)])
    func valid(text: String, flags: UInt8) throws {
        let context = try require(parse(text))
        expect(context.traceID.description, equals: Self.trace)
        expect(context.spanID, equals: 0x00f0_67aa_0ba9_02b7)
        expect(context.flags, equals: flags)
        expect(context.isSampled, equals: flags & 1 == 1)
    }

    @Test(
        "All other values are rejected",
        arguments: [
            "", "00", "00-\(trace)-\(span)-0", "00-\(trace)-\(span)-010", "00-\(trace)-\(span)-01-",
            " 00-\(trace)-\(span)-01",
            "00-\(trace)-\(span)-01 ", "ff-\(trace)-\(span)-01", "0g-\(trace)-\(span)-01", "00-\(trace)-\(span)-0x",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-\(span)-01", "00-\(trace)-00F067AA0BA902B7-01",
            "00-00000000000000000000000000000000-\(span)-01", "00-\(trace)-0000000000000000-01",
            "00_\(trace)-\(span)-01", "00-\(trace)_\(span)-01", "00-\(trace)-\(span)_01", "01-\(trace)-\(span)-01.x",
            "00-\(trace)g-\(span)-01", "0-\(trace)-\(span)-001", "00-é\(trace.dropFirst(2))-\(span)-01",
        ])
    func invalid(text: String) {
        expect(parse(text), equals: nil)
    }

    @Test("Rendered values are version 00 and are parsed back unchanged")
    func roundTrip() {
        let ids = TraceIDSource()
        for flags: UInt8 in [0, 1, 2, 3] {
            let context = TraceContext(traceID: ids.next128(), spanID: ids.next64(), flags: flags)
            expect(context.traceparentText.utf8.count, equals: TraceContext.traceparentLength)
            expect(parse(context.traceparentText), equals: context)
        }
        let known = TraceContext(traceID: ID128(high: 1, low: 0xab), spanID: 0x0f, flags: 1)
        expect(known.traceparentText, equals: "00-000000000000000100000000000000ab-000000000000000f-01")
    }

    @Test("Ids are never zero and do not repeat, also across concurrent threads")
    func ids() async {
        let source = TraceIDSource()
        let made = await withTaskGroup(of: [ID128].self) { group in
            for _ in 0..<4 { group.addTask { (0..<2_000).map { _ in source.next128() } } }
            return await group.reduce(into: Set<ID128>()) { $0.formUnion($1) }
        }
        expect(made.count, equals: 8_000)
        expect(!made.contains { $0.isZero || $0.low == 0 })
        expect(Set((0..<8_000).map { _ in source.next64() }).count, equals: 8_000)
    }
}
