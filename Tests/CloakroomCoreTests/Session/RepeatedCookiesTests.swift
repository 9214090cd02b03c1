import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The cookies that a connection repeats")
struct RepeatedCookiesTests {
    private static let (one, two) = (String(repeating: "A", count: 43), String(repeating: "B", count: 42) + "A")
    private static let fields: [[String]] = [
        [], [""], ["sid=\(one)"], ["sid=\(two)"], ["sid=\(one); sid-bound=abc"], ["sid-bound=abc; a=b; sid=\(one)"],
        ["sid=\(one); sid-bound=abd"], ["sid=\(one); sid-bound=a; sid-bound=b"], ["sid=x"], ["sid=\(one); sid=\(two)"],
        ["SID=\(one)"], ["a=b"], ["sid=\(one)", "sid-bound=abc"], ["sid-bound=abc", "a=b"],
        ["sid=\(one); a=\(String(repeating: "b", count: 512))"],
    ]

    @Test("Rule 14: they are read as if each request were the first, wherever the field is, also after a reload")
    func repeated() throws {
        var generator = SeededGenerator(seed: 1)
        let cookies = [("sid", true), ("sid", false), ("SID", true)].map {
            SessionCookie(CookieConfiguration(name: $0), hasDevices: $1)
        }
        var repeated = RepeatedCookies()
        var cookie = cookies[0]
        for _ in 0..<5_000 {
            if Int.random(in: 0..<20, using: &generator) == 0 { cookie = cookies.randomElement(using: &generator)! }
            let before = String(repeating: "x", count: Int.random(in: 0..<3, using: &generator))
            let fields = Self.fields.randomElement(using: &generator)!
            let head = try RequestHead.with(lines: ["A: \(before)"] + fields.map { "Cookie: \($0)" })
            var (expected, found) = (OtherCookies(), OtherCookies())
            let reading = cookie.read(head, others: &expected)
            expect(repeated.read(cookie, head, others: &found) == reading && found == expected, "\(fields)")
        }
    }

    @Test("Rule 77: a connection keeps a field of at most 512 bytes")
    func bounded() throws {
        let cookie = SessionCookie(CookieConfiguration(name: "sid"))
        var repeated = RepeatedCookies()
        for length in [512, 513, 8_000, 2] {
            var others = OtherCookies()
            let head = try RequestHead.with("Cookie: " + String(repeating: "a", count: length))
            _ = repeated.read(cookie, head, others: &others)
            expect(repeated.field.count == (length == 2 ? 2 : 512) && repeated.field.capacity <= 1_024)
        }
    }
}
