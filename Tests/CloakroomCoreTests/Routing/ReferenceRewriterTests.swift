import CloakroomWire
import Testing

@testable import CloakroomCore

@Suite("References in responses of rewriting routes")
struct ReferenceRewriterTests {
    /// A field of a response, and the line that replaces it; `nil` if it stays.
    struct Row: Sendable, CustomTestStringConvertible {
        let path: String
        let sent: String
        let field: String
        let replacement: String?
        let unmapped: Int

        init(_ path: String, _ sent: String, _ field: String, _ replacement: String?, unmapped: Int = 0) {
            self.path = path
            self.sent = sent
            self.field = field
            self.replacement = replacement
            self.unmapped = unmapped
        }

        var testDescription: String { "\(path) → \(sent): \(field)" }

        func check(keepsCookiePaths: Bool = false) throws {
            var rewrite = try PathRewrite(from: try PathPattern(path), to: try PathPattern(sent))
            rewrite.rewritesCookiePaths = !keepsCookiePaths
            var head = try ResponseHead.with(field)
            let rewriter = ReferenceRewriter(rewrite)
            #expect(rewriter.concerns(head))
            let outcome = rewriter.apply(&head, host: Array("api.test:8080".utf8).span)
            #expect(String(decoding: outcome.lines, as: UTF8.self) == (replacement.map { $0 + "\r\n" } ?? ""))
            #expect(head.kept == (replacement == nil ? [field] : []))
            #expect(outcome.unmapped == unmapped)
        }
    }

    private static let references = [
        // A removed prefix is added.
        Row("/a/*", "/*", "Location: /x", "Location: /a/x"), Row("/a/*", "/*", "Location: /", "Location: /a/"),
        Row("/a/*", "/*", "location: /x?y=/z#f", "location: /a/x?y=/z#f"),
        Row("/a", "/", "Location: /login", "Location: /a/login"),
        Row("/a/health", "/health", "Location: /login", "Location: /a/login"),
        Row("/t/{id}/*", "/{id}/*", "Location: /5/x", "Location: /t/5/x"),
        Row("/a/*", "/*", "Content-Location: /x", "Content-Location: /a/x"),
        // Never twice.
        Row("/a/*", "/*", "Location: /a/x", nil), Row("/a/*", "/*", "Location: /a", nil),
        Row("/a/*", "/*", "Location: /a/a/x", nil), Row("/a/*", "/*", "Location: /ab/x", "Location: /a/ab/x"),
        // Another prefix.
        Row("/o/{id}/*", "/v2/{id}/*", "Location: /v2/7/x", "Location: /o/7/x"),
        Row("/o/*", "/v2/*", "Location: /v2", "Location: /o"),
        Row("/o/*", "/v2/*", "Location: /v2?x", "Location: /o?x"),
        Row("/o/*", "/v2/*", "Location: /v21/x", nil, unmapped: 1),
        Row("/o/*", "/v2/*", "Location: /login", nil, unmapped: 1),
        Row("/*", "/v2/*", "Location: /v2/x", "Location: /x"), Row("/*", "/v2/*", "Location: /v2", "Location: /"),
        // A segment within the path changes.
        Row("/t/{id}/*", "/*", "Location: /x", nil, unmapped: 1), Row("/a/*", "/b", "Location: /b", nil, unmapped: 1),
        // The origin that was sent is dropped, another one stays.
        Row("/a/*", "/*", "Location: http://api.test:8080/x", "Location: /a/x"),
        Row("/a/*", "/*", "Location: HTTPS://API.test:8080/x", "Location: /a/x"),
        Row("/a/*", "/*", "Location: http://api.test:8080", "Location: /a/"),
        Row("/a/*", "/*", "Location: http://api.test:8080?x", "Location: /a/?x"),
        Row("/a/*", "/*", "Location: http://api.test:8080/a/x", "Location: /a/x"),
        Row("/o/*", "/v2/*", "Location: http://api.test:8080/x", nil, unmapped: 1),
        Row("/a/*", "/*", "Location: http://api.test/x", nil),
        Row("/a/*", "/*", "Location: http://api.test:80801/x", nil),
        Row("/a/*", "/*", "Location: http://u@api.test:8080/x", nil),
        Row("/a/*", "/*", "Location: https://other.test/x", nil), Row("/a/*", "/*", "Location: x/y", nil),
        Row("/a/*", "/*", "Location: ?x", nil), Row("/a/*", "/*", "Location: javascript:x", nil),
        // Never to a new origin.
        Row("/a/*", "/*", "Location: //evil", nil), Row("/a/*", "/*", "Location: /\\evil", nil),
        Row("/a/*", "/*", "Location: /\t/evil", nil), Row("/*", "/v2/*", "Location: /v2//evil", nil),
        Row("/*", "/v2/*", "Location: /v2/\\evil", nil), Row("/*", "/v2/*", "Location: /v2/\t/evil", nil),
        Row("/a/*", "/*", "Location: http://api.test:8080//evil", nil),
        Row("/a/*", "/*", "Location: /../x", "Location: /a/../x"),
    ]

    @Test("Location and Content-Location", arguments: references)
    func locationKeepsThePrefix(_ row: Row) throws { try row.check() }

    private static let lists = [
        Row("/a/*", "/*", "Refresh: 5; url=/x", "Refresh: 5; url=/a/x"),
        Row("/a/*", "/*", "Refresh: 0;URL = '/x' ", "Refresh: 0;URL = '/a/x'"),
        Row("/a/*", "/*", "Refresh: 0, url=\"/x\"; y", "Refresh: 0, url=\"/a/x\"; y"),
        Row("/a/*", "/*", "Refresh: 5", nil), Row("/a/*", "/*", "Refresh: 5;", nil),
        Row("/a/*", "/*", "Refresh: 5; url", nil), Row("/a/*", "/*", "Refresh: 5; url=", nil),
        Row("/a/*", "/*", "Refresh: 5; url=//evil", nil),
        Row(
            "/a/*", "/*", "Link: </x>; rel=next; title=\"</y>\\\"</z>\", <//evil>, <b>, </c>",
            "Link: </a/x>; rel=next; title=\"</y>\\\"</z>\", <//evil>, <b>, </a/c>"),
        Row("/a/*", "/*", "Link: <b>; rel=next", nil), Row("/a/*", "/*", "Link: </x", "Link: </a/x"),
        Row("/o/*", "/v2/*", "Link: </v2/x>, </y>", "Link: </o/x>, </y>", unmapped: 1),
    ]

    @Test("Refresh and Link", arguments: lists)
    func lists(_ row: Row) throws { try row.check() }

    private static let cookies = [
        Row("/a/*", "/*", "Set-Cookie: s=1; Path=/; Secure", "Set-Cookie: s=1; Path=/a; Secure"),
        Row("/a/*", "/*", "Set-Cookie: s=1;path = /x ;HttpOnly", "Set-Cookie: s=1;path = /a/x;HttpOnly"),
        Row("/a/*", "/*", "Set-Cookie: s=1; Path=/a/x", nil), Row("/a/*", "/*", "Set-Cookie: s=1", nil),
        Row("/a/*", "/*", "Set-Cookie: s=/; Secure", nil), Row("/a/*", "/*", "Set-Cookie: Path=/", nil),
        Row("/a/*", "/*", "Set-Cookie: s=1; Path", nil), Row("/a/*", "/*", "Set-Cookie: s=1; Path=; ; x=y", nil),
        Row("/a/*", "/*", "Set-Cookie: __Host-s=1; Path=/; Secure", nil),
        Row("/o/*", "/v2/*", "Set-Cookie: s=1; Path=/v2", "Set-Cookie: s=1; Path=/o"),
        Row("/o/*", "/v2/*", "Set-Cookie: s=1; Path=/v2/", "Set-Cookie: s=1; Path=/o/"),
        Row("/o/*", "/v2/*", "Set-Cookie: s=1; Path=/", "Set-Cookie: s=1; Path=/o"),
        Row("/o/*", "/v2/x/*", "Set-Cookie: s=1; Path=/v2", "Set-Cookie: s=1; Path=/o"),
        Row("/o/*", "/v2/*", "Set-Cookie: s=1; Path=/v", nil, unmapped: 1),
        Row("/*", "/v2/*", "Set-Cookie: s=1; Path=/v2", "Set-Cookie: s=1; Path=/"),
        Row("/a/*", "/*", "Set-Cookie: s=1; Domain=api.test; Secure", "Set-Cookie: s=1; Secure"),
        Row("/a/*", "/*", "Set-Cookie: s=1; Domain=.API.test", "Set-Cookie: s=1"),
        Row("/a/*", "/*", "Set-Cookie: s=1; Domain=test", nil),
        Row("/a/*", "/*", "Set-Cookie: s=1; Domain=other.api.test", nil),
        Row("/t/{id}/*", "/*", "Set-Cookie: s=1; Path=/", nil, unmapped: 1),
    ]

    @Test("The path of a cookie stays below the prefix, and its domain is that of the client", arguments: cookies)
    func cookies(_ row: Row) throws { try row.check() }

    @Test("cookiePaths: keep leaves the path of a cookie")
    func keptPaths() throws {
        try Row("/a/*", "/*", "Set-Cookie: s=1; Path=/", nil).check(keepsCookiePaths: true)
        try Row("/a/*", "/*", "Set-Cookie: s=1; Domain=api.test; Path=/", "Set-Cookie: s=1; Path=/")
            .check(keepsCookiePaths: true)
    }

    @Test("A thousand targets are one pass")
    func manyTargets() throws {
        let count = 1_000
        let targets = Array(repeating: "</x>", count: count).joined(separator: ",")
        let rewrite = try PathRewrite(from: try PathPattern("/a/*"), to: try PathPattern("/*"))
        var head = try ResponseHead.with("Link: " + targets)
        let outcome = ReferenceRewriter(rewrite).apply(&head, host: Span())
        #expect(outcome.rewritten == count)
        #expect(outcome.lines.count == "Link: \r\n".utf8.count + targets.utf8.count + 2 * count)
    }

    @Test("Other fields, and fields that the policy has removed, are not read")
    func others() throws {
        let rewrite = try PathRewrite(from: try PathPattern("/a/*"), to: try PathPattern("/*"))
        var head = try ResponseHead.with("X-Location: /x", "Origin: /x", "Linked: </x>", "Location: /x")
        head.fields[3].isStripped = true
        #expect(!ReferenceRewriter(rewrite).concerns(head))
        let outcome = ReferenceRewriter(rewrite).apply(&head, host: Span())
        #expect(outcome == ReferenceRewriter.Outcome())
    }
}
