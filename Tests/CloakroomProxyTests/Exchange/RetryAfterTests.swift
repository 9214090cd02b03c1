import CloakroomWire
import NIOCore
import Testing

@testable import CloakroomProxy

@Suite("Retry-After (RFC 9110 §10.2.3)")
struct RetryAfterTests {
    private static let cases: [(fields: String, seconds: UInt64?)] = [
        ("Retry-After: 30\r\n", 30), ("retry-after: 0\r\n", 0), ("Retry-After: 007\r\n", 7), ("", nil),
        ("Retry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n", nil), ("Retry-After: -1\r\n", nil),
        ("Retry-After: 1.5\r\n", nil), ("Retry-After: \r\n", nil), ("Retry-After: 1\r\nRetry-After: 2\r\n", nil),
    ]

    @Test("A delay is read if it is one number of seconds", arguments: cases.indices)
    func delay(index: Int) throws {
        let (fields, seconds) = Self.cases[index]
        #expect(try Self.delay(fields) == seconds.map { $0 * 1_000_000_000 })
    }

    @Test("A number that is too large is the greatest delay")
    func tooLarge() throws {
        #expect(try Self.delay("Retry-After: \(String(repeating: "9", count: 100))\r\n") == .max)
    }

    private static func delay(_ fields: String) throws -> UInt64? {
        var head = ResponseHead()
        var parser = HeadParser(limits: HeadLimits())
        var buffer = ByteBuffer(string: "HTTP/1.1 429 Too Many Requests\r\n\(fields)\r\n")
        let isComplete = try parser.parse(&buffer, into: &head)
        try #require(isComplete)
        return RetryAfter.nanoseconds(of: head)
    }
}
