import CloakroomCore
import CloakroomWire
import TestSupport
import Testing

@Suite("Max-Forwards")
struct MaxForwardsTests {
    @Test(
        "RFC 9110 §7.6.2: consists of digits and occurs once; large values count as 256",
        arguments: [
            ("A: b", .absent), ("Max-Forwards: 0", .value(0)), ("max-forwards: 10", .value(10)),
            ("Max-Forwards: 007", .value(7)), ("Max-Forwards: 256", .value(256)), ("Max-Forwards: 257", .value(256)),
            ("Max-Forwards: 99999999999999999999999999999999", .value(256)), ("Max-Forwards:", .malformed),
            ("Max-Forwards: -1", .malformed), ("Max-Forwards: +1", .malformed), ("Max-Forwards: 1 0", .malformed),
            ("Max-Forwards: 1, 1", .malformed), ("Max-Forwards: a", .malformed),
            ("Max-Forwards: 1\r\nMax-Forwards: 1", .malformed), ("Max-Forwards: a\r\nMax-Forwards: 1", .malformed),
        ] as [(String, MaxForwards)])
    func reading(lines: String, expected: MaxForwards) throws {
        expect(MaxForwards.read(try RequestHead.with(lines)), equals: expected)
    }
}
