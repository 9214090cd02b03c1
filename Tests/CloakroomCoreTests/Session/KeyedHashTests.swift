import TestSupport
import Testing

@testable import CloakroomCore

@Suite("A keyed hash")
struct KeyedHashTests {
    /// The key of the reference implementation's test vectors: bytes 0 to 15.
    private let reference = KeyedHash(key0: 0x0706_0504_0302_0100, key1: 0x0f0e_0d0c_0b0a_0908)

    @Test(
        "is SipHash-2-4 according to the reference vectors",
        arguments: [
            (0, 0x726f_db47_dd0e_0e31), (1, 0x74f8_39c5_93dc_67fd), (7, 0xab02_00f5_8b01_d137),
            (8, 0x93f5_f579_9a93_2462), (15, 0xa129_ca61_49be_45e5),
        ] as [(Int, UInt64)])
    func vectors(count: Int, expected: UInt64) {
        expect(reference.hash((0..<count).map(UInt8.init)), equals: expected)
    }

    @Test("Rule 13: differs for the same bytes with trailing zeros")
    func lengthCounts() {
        expect(reference.hash([1]) != reference.hash([1, 0]))
        expect(reference.hash([]) != reference.hash([0]))
    }

    @Test("differs under another key")
    func keysDiffer() {
        var generator = SystemRandomNumberGenerator()
        let first = KeyedHash(using: &generator)
        let second = KeyedHash(using: &generator)
        expect(first.hash([1, 2, 3]) != second.hash([1, 2, 3]))
        expect(first.hash([1, 2, 3]), equals: first.hash([1, 2, 3]))
    }

    @Test("Rule 22: does not show its key")
    func redacted() {
        expect("\(reference)", equals: "<redacted>")
        expect(empty: Mirror(reflecting: reference).children)
    }
}
