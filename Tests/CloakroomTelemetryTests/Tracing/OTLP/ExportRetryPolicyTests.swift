import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Delays between export attempts")
struct ExportRetryPolicyTests {
    @Test("Delays double from 1 s to 30 s, with jitter between half and all of that")
    func doubling() {
        let backOff = ExportRetryPolicy()
        let longest = (1...7).map { backOff.pause(afterAttempt: $0, retryAfter: nil, random: 0) }
        expect(longest, equals: [1, 2, 4, 8, 16, 30, 30].map { .seconds($0) })
        for (attempt, seconds) in zip(1..., [0.5, 1, 2, 4, 8, 15, 15]) {
            let shortest = backOff.pause(afterAttempt: attempt, retryAfter: nil, random: .max)
            expect(shortest.map { $0 - .seconds(seconds) <= .nanoseconds(1) }, equals: true)
            expect(shortest.map { $0 >= .seconds(seconds) }, equals: true)
        }
        expect(backOff.pause(afterAttempt: 8, retryAfter: nil, random: .max), equals: nil)
        expect(backOff.pause(afterAttempt: 8, retryAfter: .zero, random: .max), equals: nil)
    }

    @Test("A delay requested by the collector is a lower bound, and is itself limited")
    func askedFor() {
        let backOff = ExportRetryPolicy()
        expect(backOff.pause(afterAttempt: 1, retryAfter: .seconds(20), random: 0), equals: .seconds(20))
        expect(backOff.pause(afterAttempt: 5, retryAfter: .seconds(2), random: 0), equals: .seconds(16))
        expect(backOff.pause(afterAttempt: 1, retryAfter: .seconds(86_400), random: 0), equals: .seconds(60))
    }

    @Test(
        "Retry-After is seconds or a date",
        arguments: [
            ("0", 0), ("120", 120), (" 7", 7), ("99999999999999999999", 4_294_967_295),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 17), ("Sun, 06 Nov 1994 08:49:00 GMT", 0),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Mon, 07 Nov 1994 08:49:20 GMT", 86_400),
        ] as [(String, Int)])
    func retryAfter(text: String, seconds: Int) {
        expect(RetryAfter.read(text, now: WallTime(seconds: 784_111_760)), equals: .seconds(seconds))
    }

    @Test(
        "Any other Retry-After is ignored",
        arguments: [
            "", " ", "-1", "1.5", "soon", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Now 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 06 Nov 1994 08:4:37 GMT",
            "5\u{301}", "٣", "1²", String(repeating: "0", count: 65),
        ])
    func unreadable(text: String) {
        expect(RetryAfter.read(text, now: WallTime(seconds: 0)), equals: nil)
    }

    @Test("Damaged responses count no rejected spans")
    func damagedResponses() {
        expect(OTLPResponse.rejectedSpans([]), equals: 0)
        expect(OTLPResponse.rejectedSpans([0x0a, 0x02, 0x08, 0x05]), equals: 5)
        // Unknown fields are skipped, whatever their type.
        let unknown: [UInt8] = [0x10, 0x81, 0x01, 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x25, 1, 2, 3, 4, 0x32, 0x01, 0xff]
        expect(OTLPResponse.rejectedSpans(unknown + [0x0a, 0x04, 0x12, 0x00, 0x08, 0x05]), equals: 5)
        let damaged: [[UInt8]] = [
            [0x0a], [0x0a, 0x05, 0x08], [0x0a, 0x01, 0x08], [0x0b, 0x00], [0xff], Array(repeating: 0xff, count: 20),
            [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], [0x19, 0x00], [0x25, 0x00],
            [0x0a, 0x0b, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ]
        for response in damaged { expect(OTLPResponse.rejectedSpans(response), equals: 0) }
    }
}
