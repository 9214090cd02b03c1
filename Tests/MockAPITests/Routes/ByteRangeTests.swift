import TestSupport
import Testing

@testable import MockAPI

struct ByteRangeTests {
    @Test(
        "a range specifies first and last byte, only the first byte, or a suffix length",
        arguments: [
            ("bytes=0-0", 0..<1), ("bytes=2-5", 2..<6), ("bytes=2-", 2..<10), ("bytes=9-", 9..<10),
            ("bytes=-3", 7..<10), ("bytes=-99", 0..<10), ("bytes=5-99", 5..<10), ("BYTES=1-1", 1..<2),
            ("bytes=0-9223372036854775807", 0..<10),
        ])
    func part(field: String, bytes: Range<Int>) {
        expect(ByteRange(field, length: 10), equals: .part(bytes))
    }

    @Test("a range after the end is unsatisfiable", arguments: ["bytes=10-", "bytes=10-12", "bytes=99-", "bytes=-0"])
    func unsatisfiable(field: String) {
        expect(ByteRange(field, length: 10), equals: .unsatisfiable)
    }

    @Test(
        "without a range, or with an invalid one, the whole content is returned",
        arguments: [
            nil, "", "bytes", "bytes=", "bytes=-", "bytes=5-4", "bytes=a-b", "bytes=1-2,4-5", "items=1-2", "bytes=+1-2",
            "bytes=--1", "bytes=1-99999999999999999999",
        ])
    func whole(field: String?) {
        expect(ByteRange(field, length: 10), equals: .whole)
    }
}
