import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Connection options", .serialized)
struct ConnectionOptionsTests {
    private let policy = RequestHeaderPolicy(injectable: [], cookie: SessionCookie(CookieConfiguration()))

    @Test("Rule 46: 32 options are within the limit and 33 are not, in any number of fields")
    func limit() throws {
        for count in [32, 33] {
            let names = (0..<count).map { "o\($0)" }
            let one = try RequestHead.with("Connection: " + names.joined(separator: ","))
            let many = try RequestHead.with(lines: names.map { "Connection: \($0),," })
            for head in [one, many] {
                expect(ConnectionOptions.read(head).count, equals: count)
                expect(ConnectionOptions.read(head).isOverLimit, equals: count > 32)
            }
        }
        try expect(!ConnectionOptions.read(RequestHead.with("Connection: ,, ,")).isOverLimit)
    }

    @Test("All of 32 options take effect, in any case")
    func last() throws {
        let names = (0..<32).map { "X-Option-\($0)" }
        var head = try RequestHead.with(
            lines: ["Connection: " + names.joined(separator: ", ")] + names.map { "\($0.uppercased()): a" } + ["A: b"])
        _ = policy.apply(&head, isTrusted: false)
        expect(head.kept, equals: ["A: b"])
    }

    @Test("Rule 46: the cost of comparing names with options is not their product")
    func linear() throws {
        let stem = String(repeating: "a", count: 110)
        let fields = (10..<105).map { "\(stem)\($0): b" }
        func cost(_ options: Int) throws -> () -> Void {
            let names = (0..<options).map { "\(stem)\(String($0, radix: 36, uppercase: false))z".prefix(112) }
            let head = try RequestHead.with(lines: ["Connection: " + names.joined(separator: ",")] + fields)
            return {
                for _ in 0..<20 {
                    var copy = head
                    _ = policy.apply(&copy, isTrusted: false)
                }
            }
        }
        let ratio = LinearTime.ratio(try cost(1), to: try cost(32))
        #expect(ratio < 6, "\(ratio)")
    }
}
