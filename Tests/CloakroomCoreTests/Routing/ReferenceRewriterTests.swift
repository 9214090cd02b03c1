import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

/// A field of a response, and what it becomes; `nil` if it stays.
struct ReferenceField: Sendable, CustomTestStringConvertible {
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

    func check(keepsCookiePaths: Bool = false, isSecure: Bool = true, host: String = "API.test:8080") throws {
        let rewrite = try PathRewrite(
            from: try PathPattern(path), to: try PathPattern(sent), keepsCookiePaths: keepsCookiePaths)
        var head = try ResponseHead.with(field)
        var rewriter = ReferenceRewriter(rewrite, isSecure: isSecure)
        rewriter.apply(&head, host: Array(host.utf8))
        expect(String(decoding: rewriter.lines, as: UTF8.self), equals: (replacement ?? field) + "\r\n")
        expect(head.kept, equals: [])
        expect(rewriter.unmapped, equals: unmapped)
    }
}

@Suite("References in responses of rewriting routes")
struct ReferenceRewriterTests {
    private static let references: [ReferenceField] = [
        // A removed prefix is added.
        ReferenceField("/a/*", "/*", "Location: /x", "Location: /a/x"),
        ReferenceField("/a/*", "/*", "Location: /", "Location: /a/"),
        ReferenceField("/a/*", "/*", "location: /x?y=/z#f", "location: /a/x?y=/z#f"),
        ReferenceField("/a", "/", "Location: /login", "Location: /a/login"),
        ReferenceField("/a/health", "/health", "Location: /login", "Location: /a/login"),
        ReferenceField("/t/{id}/*", "/{id}/*", "Location: /5/x", "Location: /t/5/x"),
        ReferenceField("/a/*", "/*", "Content-Location: /x", "Content-Location: /a/x"),
        // Never twice.
        ReferenceField("/a/*", "/*", "Location: /a/x", nil), ReferenceField("/a/*", "/*", "Location: /a", nil),
        ReferenceField("/a/*", "/*", "Location: /a/a/x", nil),
        ReferenceField("/a/*", "/*", "Location: /ab/x", "Location: /a/ab/x"),
        // Another prefix.
        ReferenceField("/o/{id}/*", "/v2/{id}/*", "Location: /v2/7/x", "Location: /o/7/x"),
        ReferenceField("/o/*", "/v2/*", "Location: /v2", "Location: /o"),
        ReferenceField("/o/*", "/v2/*", "Location: /v2?x", "Location: /o?x"),
        ReferenceField("/o/*", "/v2/*", "Location: /v21/x", nil, unmapped: 1),
        ReferenceField("/o/*", "/v2/*", "Location: /login", nil, unmapped: 1),
        ReferenceField("/*", "/v2/*", "Location: /v2/x", "Location: /x"),
        ReferenceField("/*", "/v2/*", "Location: /v2", "Location: /"),
        // All paths that are made begin with the received prefix.
        ReferenceField("/a/*", "/a/b/*", "Location: /a/b/x", "Location: /a/x"),
        ReferenceField("/a/*", "/a/b/*", "Location: /a/x", nil),
        ReferenceField("/a/", "/b/", "Location: /b/", "Location: /a/"),
        ReferenceField("/a/b/*", "/a/*", "Location: /a/b/x", nil),
        // A segment within the path changes.
        ReferenceField("/t/{id}/*", "/*", "Location: /x", nil, unmapped: 1),
        ReferenceField("/a/*", "/b", "Location: /b", nil, unmapped: 1),
        // The origin that was sent is dropped, another one stays.
        ReferenceField("/a/*", "/*", "Location: http://api.test:8080/x", "Location: /a/x"),
        ReferenceField("/a/*", "/*", "Location: HTTPS://API.test:8080/x", "Location: /a/x"),
        ReferenceField("/a/*", "/*", "Location: http://api.test:8080", "Location: /a/"),
        ReferenceField("/a/*", "/*", "Location: http://api.test:8080?x", "Location: /a/?x"),
        ReferenceField("/a/*", "/*", "Location: http://api.test:8080/a/x", "Location: /a/x"),
        ReferenceField("/o/*", "/v2/*", "Location: http://api.test:8080/x", nil, unmapped: 1),
        ReferenceField("/a/*", "/*", "Location: http://api.test/x", nil),
        ReferenceField("/a/*", "/*", "Location: http://api.test:80801/x", nil),
        ReferenceField("/a/*", "/*", "Location: http://u@api.test:8080/x", nil),
        ReferenceField("/a/*", "/*", "Location: https://other.test/x", nil),
        ReferenceField("/a/*", "/*", "Location: x/y", nil),
        ReferenceField("/a/*", "/*", "Location: ?x", nil), ReferenceField("/a/*", "/*", "Location: javascript:x", nil),
        // Never to a new origin.
        ReferenceField("/a/*", "/*", "Location: //evil", nil), ReferenceField("/a/*", "/*", "Location: /\\evil", nil),
        ReferenceField("/a/*", "/*", "Location: /\t/evil", nil),
        ReferenceField("/*", "/v2/*", "Location: /v2//evil", nil, unmapped: 1),
        ReferenceField("/*", "/v2/*", "Location: /v2/\\evil", nil, unmapped: 1),
        ReferenceField("/*", "/v2/*", "Location: /v2/\t/evil", nil, unmapped: 1),
        ReferenceField("/a/*", "/*", "Location: http://api.test:8080//evil", nil),
        ReferenceField("/a/*", "/*", "Location: http://api.test:8080\\@evil", nil),
        ReferenceField("/a/*", "/*", "Location: http:///x", nil),
        ReferenceField("/a/*", "/*", "Location: /../x", "Location: /a/../x"),
    ]

    @Test("Location and Content-Location", arguments: references)
    func locationKeepsThePrefix(_ row: ReferenceField) throws { try row.check() }

    @Test("Without https the origin of an https reference stays, because it may be an upgrade")
    func upgrades() throws {
        try ReferenceField("/a/*", "/*", "Location: https://api.test:8080/x", nil).check(isSecure: false)
        try ReferenceField("/a/*", "/*", "Location: http://api.test:8080/x", "Location: /a/x").check(isSecure: false)
    }

    @Test(
        "An omitted port is the default of the scheme",
        arguments: [
            ("app.test", "https://app.test:443/y", true), ("app.test", "http://app.test:80/y", true),
            ("app.test", "http://app.test:/y", true), ("app.test", "http://app.test:443/y", false),
            ("app.test", "https://app.test:80/y", false), ("App.test:443", "https://app.test/y", true),
            ("app.test:443", "http://app.test/y", false), ("app.test:80", "http://app.test/y", true),
            ("[::1]", "https://[::1]:443/y", true), ("[::1]:80", "http://[::1]/y", true),
            ("[::1]:8080", "http://[::1]/y", false), ("", "http:///y", false), ("", "https://app.test/y", false),
        ])
    func ports(_ host: String, _ reference: String, _ isSame: Bool) throws {
        let field = ReferenceField("/a/*", "/*", "Location: " + reference, isSame ? "Location: /a/y" : nil)
        try field.check(host: host)
    }

    private static let lists: [ReferenceField] = [
        ReferenceField("/a/*", "/*", "Refresh: 5; url=/x", "Refresh: 5; url=/a/x"),
        ReferenceField("/a/*", "/*", "Refresh: 0;URL = '/x' ", "Refresh: 0;URL = '/a/x'"),
        ReferenceField("/a/*", "/*", "Refresh: 0, url=\"/x\"; y", "Refresh: 0, url=\"/a/x\"; y"),
        ReferenceField("/a/*", "/*", "Refresh: 5", nil), ReferenceField("/a/*", "/*", "Refresh: 5;", nil),
        ReferenceField("/a/*", "/*", "Refresh: 5; url", nil), ReferenceField("/a/*", "/*", "Refresh: 5; url=", nil),
        ReferenceField("/a/*", "/*", "Refresh: 5; url=//evil", nil),
        ReferenceField("/a/*", "/*", "Refresh: 5; /x", "Refresh: 5; /a/x"),
        ReferenceField("/a/*", "/*", "Refresh: 0.5 ,'/x'", "Refresh: 0.5 ,'/a/x'"),
        ReferenceField("/a/*", "/*", "Refresh: 5; ../x", nil),
        ReferenceField("/a/*", "/*", "Refresh: 5; url=../x", nil),
        ReferenceField("/a/*", "/*", "Refresh: 5; url='/x", "Refresh: 5; url='/a/x"),
        ReferenceField(
            "/a/*", "/*", "Link: </x>; rel=next; title=\"</y>\\\"</z>\", <//evil>, <b>, </c>",
            "Link: </a/x>; rel=next; title=\"</y>\\\"</z>\", <//evil>, <b>, </a/c>"),
        ReferenceField("/a/*", "/*", "Link: </x>; title=\"\\", "Link: </a/x>; title=\"\\"),
        ReferenceField("/a/*", "/*", "Link: <", nil),
        ReferenceField("/a/*", "/*", "Link: <b>; rel=next", nil),
        ReferenceField("/a/*", "/*", "Link: </x", "Link: </a/x"),
        ReferenceField("/o/*", "/v2/*", "Link: </v2/x>, </y>", "Link: </o/x>, </y>", unmapped: 1),
    ]

    @Test("Refresh and Link", arguments: lists)
    func refreshAndLink(_ row: ReferenceField) throws { try row.check() }

    private static let cookies: [ReferenceField] = [
        ReferenceField("/a/*", "/*", "Set-Cookie: s=1; Path=/; Secure", "Set-Cookie: s=1; Path=/a; Secure"),
        ReferenceField("/a/*", "/*", "Set-Cookie: s=1;path = /x ;HttpOnly", "Set-Cookie: s=1;path = /a/x;HttpOnly"),
        ReferenceField("/a/*", "/*", "Set-Cookie: s=1; Path=/a/x", nil),
        ReferenceField("/a/*", "/*", "Set-Cookie: s=1", nil),
        ReferenceField("/a/*", "/*", "Set-Cookie: s=/; Secure", nil),
        ReferenceField("/a/*", "/*", "Set-Cookie: Path=/", nil),
        ReferenceField("/a/*", "/*", "Set-Cookie: s=1; Path", nil),
        ReferenceField("/a/*", "/*", "Set-Cookie: s=1; Path=; ; x=y", nil),
        ReferenceField("/a/*", "/*", "Set-Cookie: __Host-s=1; Path=/; Secure", nil),
        ReferenceField("/o/*", "/v2/*", "Set-Cookie: s=1; Path=/v2", "Set-Cookie: s=1; Path=/o"),
        ReferenceField("/o/*", "/v2/*", "Set-Cookie: s=1; Path=/v2/", "Set-Cookie: s=1; Path=/o/"),
        ReferenceField("/o/*", "/v2/*", "Set-Cookie: s=1; Path=/", "Set-Cookie: s=1; Path=/o"),
        ReferenceField("/o/*", "/v2/x/*", "Set-Cookie: s=1; Path=/v2", "Set-Cookie: s=1; Path=/o"),
        ReferenceField("/o/*", "/v2/x/*", "Set-Cookie: s=1; Path=/v2/", "Set-Cookie: s=1; Path=/o"),
        ReferenceField("/a/*", "/a/b/*", "Set-Cookie: s=1; Path=/", "Set-Cookie: s=1; Path=/a"),
        ReferenceField("/o/*", "/v2/*", "Set-Cookie: s=1; Path=/v", nil, unmapped: 1),
        ReferenceField("/*", "/v2/*", "Set-Cookie: s=1; Path=/v2", "Set-Cookie: s=1; Path=/"),
        ReferenceField("/a/*", "/*", "Set-Cookie: s=1; Domain=api.test; Secure", "Set-Cookie: s=1; Secure"),
        ReferenceField("/a/*", "/*", "Set-Cookie: s=1; Domain=.API.test", "Set-Cookie: s=1"),
        ReferenceField("/a/*", "/*", "Set-Cookie: s=1; Domain=test", nil),
        ReferenceField("/a/*", "/*", "Set-Cookie: s=1; Domain=other.api.test", nil),
        ReferenceField("/t/{id}/*", "/*", "Set-Cookie: s=1; Path=/", nil, unmapped: 1),
    ]

    @Test("The path of a cookie stays below the prefix, and its domain is that of the client", arguments: cookies)
    func cookieAttributes(_ row: ReferenceField) throws { try row.check() }

    @Test("cookiePaths: keep leaves the path of a cookie")
    func keptPaths() throws {
        try ReferenceField("/a/*", "/*", "Set-Cookie: s=1; Path=/", nil).check(keepsCookiePaths: true)
        try ReferenceField("/a/*", "/*", "Set-Cookie: s=1; Domain=api.test; Path=/", "Set-Cookie: s=1; Path=/")
            .check(keepsCookiePaths: true)
    }

    private static func apply(_ fields: [String], stripping index: Int? = nil) throws -> (ReferenceRewriter, [String]) {
        let rewrite = try PathRewrite(from: try PathPattern("/a/*"), to: try PathPattern("/*"))
        var head = try ResponseHead.with(fields.joined(separator: "\r\n"))
        if let index { head.fields[index].isStripped = true }
        var rewriter = ReferenceRewriter(rewrite, isSecure: true)
        rewriter.apply(&head, host: [])
        return (rewriter, head.kept)
    }

    @Test("A thousand targets are one pass")
    func manyTargets() throws {
        let count = 1_000
        let targets = Array(repeating: "</x>", count: count).joined(separator: ",")
        let rewriter = try Self.apply(["Link: " + targets]).0
        expect(rewriter.rewritten, equals: count)
        expect(rewriter.lines.count, equals: "Link: \r\n".utf8.count + targets.utf8.count + 2 * count)
    }

    @Test("Beyond 64 KiB references stay, so that a long prefix and short targets do not fill the memory")
    func limit() throws {
        let prefix = "/" + String(repeating: "p", count: 1_000)
        let rewrite = try PathRewrite(from: try PathPattern(prefix + "/*"), to: try PathPattern("/*"))
        let count = 2_000
        let targets = Array(repeating: "</>", count: count).joined(separator: ",")
        let cookie = "Set-Cookie: a" + String(repeating: ";path=/", count: 1_000)
        var head = try ResponseHead.with("Link: " + targets, cookie, "Location: /x")
        var rewriter = ReferenceRewriter(rewrite, isSecure: true)
        rewriter.apply(&head, host: [])
        #expect(rewriter.rewritten > 60)
        expect(rewriter.rewritten + rewriter.unmapped, equals: count + 1_001)
        #expect(rewriter.lines.count < ReferenceRewriter.maxLength + prefix.utf8.count + 32_768)
        expect(String(decoding: rewriter.lines, as: UTF8.self).hasSuffix(";path=/\r\nLocation: /x\r\n"))
    }

    @Test("Fields of one name keep their order")
    func order() throws {
        let (rewriter, kept) = try Self.apply(["Set-Cookie: a=1; Path=/", "X: y", "Set-Cookie: a=2; Path=/a"])
        expect(
            String(decoding: rewriter.lines, as: UTF8.self),
            equals: "Set-Cookie: a=1; Path=/a\r\nSet-Cookie: a=2; Path=/a\r\n")
        expect(kept, equals: ["X: y"])
    }

    @Test("Other fields, and fields that the policy has removed, are not read")
    func others() throws {
        let fields = ["X-Location: /x", "Origin: /x", "Linked: </x>", "Location: /x"]
        let (rewriter, kept) = try Self.apply(fields, stripping: 3)
        expect(empty: rewriter.lines)
        expect(kept, equals: Array(fields.dropLast()))
    }
}
