import CloakroomCore
import Testing

@Suite("A session's identifier")
struct SessionIDTests {
    @Test(
        "is 16 hexadecimal digits, and is parsed from them",
        arguments: [
            (0, "0000000000000000"), (1, "0000000000000001"), (0x0123_4567_89ab_cdef, "0123456789abcdef"),
            (.max, "ffffffffffffffff"),
        ] as [(UInt64, String)])
    func roundTrip(value: UInt64, text: String) {
        #expect(SessionID(value).description == text)
        #expect(SessionID(text) == SessionID(value))
    }

    @Test(
        "Rule 20: is parsed only from its canonical form",
        arguments: [
            "", "0", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "+123456789abcdef", "-123456789abcdef",
            "0x23456789abcdef", " 123456789abcdef", "0123456789abcdeg", "０123456789abcdef", "0123456789abcde\u{301}",
            "01234567%39abcde", String(repeating: "a", count: 100_000),
        ])
    func otherSpellings(text: String) {
        #expect(SessionID(text) == nil)
    }

    @Test("is the first eight bytes of the store's key")
    func key() {
        #expect(SessionKey(0x0123_4567_89ab_cdef, 1, 2, 3).id.description == "0123456789abcdef")
    }
}
