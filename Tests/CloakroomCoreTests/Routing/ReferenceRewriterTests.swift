import CloakroomWire
import Testing

@testable import CloakroomCore

@Suite("References in responses of rewriting routes")
struct ReferenceRewriterTests {
    /// A field of a response, and what it becomes; `nil` if it stays.
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

        func check(keepsCookiePaths: Bool = false, isSecure: Bool = true) throws {
            let rewrite = try PathRewrite(
                from: try PathPattern(path), to: try PathPattern(sent), keepsCookiePaths: keepsCookiePaths)
            var head = try ResponseHead.with(field)
            var rewriter = ReferenceRewriter(rewrite, host: Array("API.test:8080".utf8), isSecure: isSecure)
            rewriter.apply(&head)
            #expect(String(decoding: rewriter.lines, as: UTF8.self) == (replacement ?? field) + "\r\n")
            #expect(head.kept == [])
            #expect(rewriter.unmapped == unmapped)
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
        // All paths that are made begin with the received prefix.
        Row("/a/*", "/a/b/*", "Location: /a/b/x", "Location: /a/x"), Row("/a/*", "/a/b/*", "Location: /a/x", nil),
        Row("/a/", "/b/", "Location: /b/", "Location: /a/"), Row("/a/b/*", "/a/*", "Location: /a/b/x", nil),
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
        Row("/a/*", "/*", "Location: /\t/evil", nil), Row("/*", "/v2/*", "Location: /v2//evil", nil, unmapped: 1),
        Row("/*", "/v2/*", "Location: /v2/\\evil", nil, unmapped: 1),
        Row("/*", "/v2/*", "Location: /v2/\t/evil", nil, unmapped: 1),
        Row("/a/*", "/*", "Location: http://api.test:8080//evil", nil),
        Row("/a/*", "/*", "Location: http://api.test:8080\\@evil", nil), Row("/a/*", "/*", "Location: http:///x", nil),
        Row("/a/*", "/*", "Location: /../x", "Location: /a/../x"),
    ]

    @Test("Location and Content-Location", arguments: references)
    func locationKeepsThePrefix(_ row: Row) throws { try row.check() }

    @Test("Without https the origin of an https reference stays, because it may be an upgrade")
    func upgrades() throws {
        try Row("/a/*", "/*", "Location: https://api.test:8080/x", nil).check(isSecure: false)
        try Row("/a/*", "/*", "Location: http://api.test:8080/x", "Location: /a/x").check(isSecure: false)
    }

    private static let lists = [
        Row("/a/*", "/*", "Refresh: 5; url=/x", "Refresh: 5; url=/a/x"),
        Row("/a/*", "/*", "Refresh: 0;URL = '/x' ", "Refresh: 0;URL = '/a/x'"),
        Row("/a/*", "/*", "Refresh: 0, url=\"/x\"; y", "Refresh: 0, url=\"/a/x\"; y"),
        Row("/a/*", "/*", "Refresh: 5", nil), Row("/a/*", "/*", "Refresh: 5;", nil),
        Row("/a/*", "/*", "Refresh: 5; url", nil), Row("/a/*", "/*", "Refresh: 5; url=", nil),
        Row("/a/*", "/*", "Refresh: 5; url=//evil", nil), Row("/a/*", "/*", "Refresh: 5; /x", "Refresh: 5; /a/x"),
        Row("/a/*", "/*", "Refresh: 0.5 ,'/x'", "Refresh: 0.5 ,'/a/x'"), Row("/a/*", "/*", "Refresh: 5; ../x", nil),
        Row("/a/*", "/*", "Refresh: 5; url=../x", nil),
        Row("/a/*", "/*", "Refresh: 5; url='/x", "Refresh: 5; url='/a/x"),
        Row(
            "/a/*", "/*", "Link: </x>; rel=next; title=\"</y>\\\"</z>\", <//evil>, <b>, </c>",
            "Link: </a/x>; rel=next; title=\"</y>\\\"</z>\", <//evil>, <b>, </a/c>"),
        Row("/a/*", "/*", "Link: </x>; title=\"\\", "Link: </a/x>; title=\"\\"), Row("/a/*", "/*", "Link: <", nil),
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
        Row("/o/*", "/v2/x/*", "Set-Cookie: s=1; Path=/v2/", "Set-Cookie: s=1; Path=/o"),
        Row("/a/*", "/a/b/*", "Set-Cookie: s=1; Path=/", "Set-Cookie: s=1; Path=/a"),
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

    private static func apply(_ fields: [String], stripping index: Int? = nil) throws -> (ReferenceRewriter, [String]) {
        let rewrite = try PathRewrite(from: try PathPattern("/a/*"), to: try PathPattern("/*"))
        var head = try ResponseHead.with(fields.joined(separator: "\r\n"))
        if let index { head.fields[index].isStripped = true }
        var rewriter = ReferenceRewriter(rewrite, host: [], isSecure: true)
        rewriter.apply(&head)
        return (rewriter, head.kept)
    }

    @Test("A thousand targets are one pass")
    func manyTargets() throws {
        let count = 1_000
        let targets = Array(repeating: "</x>", count: count).joined(separator: ",")
        let rewriter = try Self.apply(["Link: " + targets]).0
        #expect(rewriter.rewritten == count)
        #expect(rewriter.lines.count == "Link: \r\n".utf8.count + targets.utf8.count + 2 * count)
    }

    @Test("Fields of one name keep their order")
    func order() throws {
        let (rewriter, kept) = try Self.apply(["Set-Cookie: a=1; Path=/", "X: y", "Set-Cookie: a=2; Path=/a"])
        #expect(
            String(decoding: rewriter.lines, as: UTF8.self)
                == "Set-Cookie: a=1; Path=/a\r\nSet-Cookie: a=2; Path=/a\r\n")
        #expect(kept == ["X: y"])
    }

    @Test("Other fields, and fields that the policy has removed, are not read")
    func others() throws {
        let fields = ["X-Location: /x", "Origin: /x", "Linked: </x>", "Location: /x"]
        let (rewriter, kept) = try Self.apply(fields, stripping: 3)
        #expect(rewriter.lines.isEmpty)
        #expect(kept == Array(fields.dropLast()))
    }
}
