import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Injected secrets in responses", .serialized)
struct InjectedSecretsTests {
    private let policy = ResponseHeaderPolicy(injectable: ["X-API-TOKEN"], cookie: SessionCookie(CookieConfiguration()))
    private let secrets = InjectedSecrets(
        apiToken: Secret("key-0123456789"), authorization: Secret("Bearer token-abcdefghijkl"))

    private func mark(_ lines: String...) throws -> (kept: [String], removed: RemovedResponseFields) {
        var head = try ResponseHead.with(lines.joined(separator: "\r\n"))
        let summary = policy.apply(&head, without: secrets)
        return (head.kept, summary.removed)
    }

    @Test(
        "Rule 44: values that contain an injected secret are removed from any field, and counted",
        arguments: [
            "X-Debug: key-0123456789", "X-Debug: token-abcdefghijkl", "Location: /?k=key-0123456789&b",
            "Set-Cookie: a=token-abcdefghijkl; Path=/", "Content-Type: text/plain; a=key-0123456789",
            "ETag: \"xxkey-0123456789\"", "WWW-Authenticate: Bearer token-abcdefghijkl", "X: kkey-0123456789",
        ])
    func values(line: String) throws {
        let result = try mark("A: b", line, "C: d")
        expect(result.kept, equals: ["A: b", "C: d"])
        expect(result.removed.injectedValues, equals: 1)
    }

    @Test("Rule 44: a secret is found at each position of a value, also after its own first characters")
    func positions() throws {
        for before in 0...20 {
            for after in 0...9 {
                for filler in ["k", "t", "."] {
                    let (start, end) = (
                        String(repeating: filler, count: before), String(repeating: filler, count: after)
                    )
                    try expect(mark("X: \(start)key-0123456789\(end)").kept, equals: [])
                    try expect(mark("X: \(start)token-abcdefghijkl\(end)").kept, equals: [])
                    let similar = "X: .\(start)key-012345678\(end)."
                    try expect(mark(similar).kept, equals: [similar])
                }
            }
        }
    }

    @Test(
        "Similar values are forwarded, and other directives of Clear-Site-Data",
        arguments: [
            "X: key-012345678", "X: ey-0123456789", "X: token-abcdefghijk", "X: Bearer", "X-API: a",
            "X: KEY-0123456789", "Clear-Site-Data: \"cache\"", "Clear-Site-Data: \"storage\", \"cache\"",
            "Clear-Site-Data: ",
        ])
    func others(line: String) throws {
        let result = try mark(line)
        expect(result.kept, equals: [line])
        expect(result.removed.isEmpty)
    }

    @Test("Rule 44: a reason phrase that contains a secret is emptied")
    func reason() throws {
        var head = ResponseHead()
        var parser = HeadParser(limits: HeadLimits())
        var buffer = ByteBuffer(string: "HTTP/1.1 200 OK key-0123456789\r\nA: b\r\n\r\n")
        let isComplete = try parser.parse(&buffer, into: &head)
        expect(isComplete)
        let summary = policy.apply(&head, without: secrets)
        expect(head.reason.isEmpty)
        expect(summary.removed.injectedValues, equals: 1)
    }

    @Test("Secrets of less than eight bytes are not searched for in values; their field names are removed")
    func short() throws {
        let short = InjectedSecrets(apiToken: Secret("1234567"), authorization: Secret("Bearer 7654321"))
        var head = try ResponseHead.with("A: 1234567", "B: 7654321", "X-API-Token: 1234567")
        _ = policy.apply(&head, without: short)
        expect(head.kept, equals: ["A: 1234567", "B: 7654321"])
        let long = InjectedSecrets(apiToken: Secret("12345678"), authorization: Secret("Bearer 87654321"))
        head = try ResponseHead.with("A: x12345678", "B: 87654321", "C: d")
        _ = policy.apply(&head, without: long)
        expect(head.kept, equals: ["C: d"])
    }

    @Test(
        "Rule 45: Clear-Site-Data with cookies or a wildcard is removed and counted",
        arguments: [
            "\"cookies\"", "\"*\"", "\"cache\", \"cookies\", \"storage\"", "\"Cookies\"", "cookies", "*",
            "\"cache\",\"*\"",
        ])
    func clearSiteData(value: String) throws {
        let result = try mark("Clear-Site-Data: \(value)", "A: b")
        expect(result.kept, equals: ["A: b"])
        expect(result.removed.siteData, equals: 1)
    }

    @Test("The description does not contain secrets")
    func redacted() {
        expect(!"\(secrets)".contains("0123456789"))
        expect(!String(reflecting: secrets).contains("abcdefghijkl"))
    }

    @Test(
        "Rule 46: a value constructed to be slow to search costs linear time and counts as a match")
    func linear() throws {
        let slow = InjectedSecrets(
            apiToken: Secret(String(repeating: "a", count: 1_000) + "b"), authorization: nil)
        let usual = try ResponseHead.with("A: " + String(repeating: "ab", count: 6_000))
        let hostile = try ResponseHead.with("A: " + String(repeating: "a", count: 12_000))
        func cost(_ head: ResponseHead) -> () -> Void {
            {
                for _ in 0..<5 {
                    var copy = head
                    _ = policy.apply(&copy, without: slow)
                }
            }
        }
        let ratio = LinearTime.ratio(cost(usual), to: cost(hostile))
        #expect(ratio < 15, "\(ratio)")
        var head = hostile
        _ = policy.apply(&head, without: slow)
        expect(empty: head.kept)
        head = usual
        _ = policy.apply(&head, without: slow)
        expect(head.kept.count, equals: 1)
    }
}
