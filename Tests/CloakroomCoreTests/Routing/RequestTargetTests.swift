import CloakroomCore
import CloakroomWire
import TestSupport
import Testing

@Suite("A request's target")
struct RequestTargetTests {
    private struct Parts: Equatable {
        var path: String
        var query = ""
        var authority: String?
        var isRewritten = false
    }

    private func parts(_ text: String) throws(RequestTargetError) -> Parts {
        let bytes = Array(text.utf8)
        var scratch = Array("left from before".utf8)
        let target = try RequestTarget.parse(bytes.span, scratch: &scratch)
        func part(_ range: ByteRange) -> String { String(decoding: bytes[range.start..<range.end], as: UTF8.self) }
        return Parts(
            path: target.isPathRewritten ? String(decoding: scratch, as: UTF8.self) : part(target.path),
            query: part(target.query), authority: target.authority.map(part), isRewritten: target.isPathRewritten)
    }

    private func rejection(_ text: String) -> RequestTargetError? {
        do throws(RequestTargetError) {
            _ = try parts(text)
            return nil
        } catch {
            return error
        }
    }

    @Test(
        "RFC 9112 §3.2.1: a path in normal form is unchanged",
        arguments: ["/", "/a", "/a/", "/a/b.c", "/...", "/.a", "/a.", "/..a", "/~a-_!$&'()*+,=:@", "/*"])
    func plain(path: String) throws {
        try expect(parts(path), equals: Parts(path: path))
    }

    @Test("Rule 4: the query is not part of the path and is forwarded unchanged")
    func query() throws {
        try expect(parts("/videos/1?p=/episodes"), equals: Parts(path: "/videos/1", query: "?p=/episodes"))
        try expect(parts("/videos/1?/../episodes"), equals: Parts(path: "/videos/1", query: "?/../episodes"))
        try expect(parts("/a?%2e%2E/;\\//?%zz"), equals: Parts(path: "/a", query: "?%2e%2E/;\\//?%zz"))
        try expect(parts("/?"), equals: Parts(path: "/", query: "?"))
        try expect(parts("/%41?%41"), equals: Parts(path: "/A", query: "?%41", isRewritten: true))
    }

    @Test("Rule 5: # and %23 in the path are rejected", arguments: ["/a#b", "/#", "/a%23b", "/%23", "/a#?b"])
    func fragment(text: String) {
        expect(rejection(text), equals: .fragment)
    }

    @Test("Rule 5: # in the query is rejected; %23 in it is data and is forwarded")
    func fragmentInQuery() throws {
        expect(rejection("/a?b#c"), equals: .fragment)
        expect(rejection("/a?#"), equals: .fragment)
        try expect(parts("/a?b=%23"), equals: Parts(path: "/a", query: "?b=%23"))
    }

    @Test(
        "Rule 6: ambiguous paths are rejected",
        arguments: [
            ("/..", .dotSegment), ("/.", .dotSegment), ("/../", .dotSegment), ("/a/../b", .dotSegment),
            ("/a/./b", .dotSegment), ("/a/..", .dotSegment), ("/a/.", .dotSegment), ("/a/..?b", .dotSegment),
            ("/%2e", .dotSegment), ("/%2E%2e", .dotSegment), ("/.%2e/a", .dotSegment), ("/a%2eb", .dotSegment),
            ("//", .emptySegment), ("//a", .emptySegment), ("/a//b", .emptySegment), ("/a//", .emptySegment),
            ("/a///?b", .emptySegment), ("http://a//b", .emptySegment),
            ("/a%2fb", .separator), ("/a%2Fb", .separator), ("/a%5cb", .separator), ("/a%5Cb", .separator),
            ("/a\\b", .separator), ("/\\..\\a", .separator), ("/a;b", .separator), ("/a;", .separator),
            ("/a%3bb", .separator), ("/a%3Bb", .separator), ("/a%00", .separator),
            ("/%", .percentEncoding), ("/%2", .percentEncoding), ("/%2?e", .percentEncoding),
            ("/%zz", .percentEncoding), ("/%+1", .percentEncoding), ("/% 1", .character), ("/%%41", .percentEncoding),
            ("/%u0041", .percentEncoding), ("/%2/e", .percentEncoding),
            ("/ä", .character), ("/a\u{0}", .character), ("/a b", .character), ("/a\tb", .character),
            ("/a\r\nb", .character), ("/a\u{7f}", .character), ("/%0d%0a", .character), ("/%7f", .character),
            ("/%01", .character), ("/a<b", .character), ("/a\"b", .character), ("/a}", .character),
            ("/a{b}", .character), ("/a^b", .character), ("/a`b", .character), ("/[..]/..", .dotSegment),
            ("/?ä", .character), ("/?a b", .character), ("/?\u{0}", .character), ("/?\r\n", .character),
        ] as [(String, RequestTargetError)])
    func rejected(text: String, expected: RequestTargetError) {
        expect(rejection(text), equals: expected)
    }

    @Test(
        "Rule 6: normalization decodes characters that need no encoding and encodes all others in upper case",
        arguments: [
            ("/%61%5A%30", "/aZ0"), ("/%2d%5f%7e", "/-_~"), ("/a%20b", "/a%20b"), ("/%c3%a4", "/%C3%A4"),
            ("/a%3fb", "/a%3Fb"), ("/%25", "/%25"), ("/%252e", "/%252e"), ("/%25%32%65", "/%252e"),
            ("/%40%3a%2c%3D", "/@:,="), ("/%2b", "/%2B"), ("/x/%41/", "/x/A/"),
        ])
    func normalForm(text: String, path: String) throws {
        try expect(parts(text), equals: Parts(path: path, isRewritten: true))
    }

    @Test(
        "Rule 6: brackets and bars, which browsers send as they are, have the same normal form as encoded ones",
        arguments: [
            ("/blog/[slug]", "/blog/%5Bslug%5D"), ("/[...rest]/a|b", "/%5B...rest%5D/a%7Cb"),
            ("/[[lang]]", "/%5B%5Blang%5D%5D"),
            ("/%5b]%7c|", "/%5B%5D%7C%7C"), ("/[%41", "/%5BA"),
        ])
    func brackets(text: String, path: String) throws {
        try expect(parts(text), equals: Parts(path: path, isRewritten: true))
        try expect(parts(path).path, equals: path)
        try expect(parts("/a?b=[1]|2"), equals: Parts(path: "/a", query: "?b=[1]|2"))
    }

    @Test("Rule 6: normalization is idempotent")
    func normalFormIsStable() throws {
        for value in UInt8.min...UInt8.max {
            let digits = (value < 16 ? "0" : "") + String(value, radix: 16)
            let forms = ["/a%\(digits)b", "/a%\(digits.uppercased())b"].map { try? parts($0).path }
            expect(forms[0], equals: forms[1])
            guard let form = forms[0] else { continue }
            try expect(parts(form).path, equals: form)
        }
    }

    @Test("RFC 9112 §3.2.2: an absolute form is parsed into authority, path and query")
    func absoluteForm() throws {
        try expect(parts("http://a/b?c"), equals: Parts(path: "/b", query: "?c", authority: "a"))
        try expect(parts("HTTPS://a.b:443/"), equals: Parts(path: "/", authority: "a.b:443"))
        try expect(parts("http://a"), equals: Parts(path: "", authority: "a"))
        try expect(parts("http://a?b"), equals: Parts(path: "", query: "?b", authority: "a"))
        try expect(parts("http://[::1]:80/a"), equals: Parts(path: "/a", authority: "[::1]:80"))
        try expect(parts("http://a/%41"), equals: Parts(path: "/A", authority: "a", isRewritten: true))
        expect(rejection("http://a/../b"), equals: .dotSegment)
        expect(rejection("http://a/b#c"), equals: .fragment)
    }

    @Test("RFC 9112 §3.2.4: an asterisk is the whole target")
    func asterisk() throws {
        var scratch: [UInt8] = []
        let asterisk = try RequestTarget.parse(Array("*".utf8).span, scratch: &scratch)
        let path = try RequestTarget.parse(Array("/*".utf8).span, scratch: &scratch)
        expect(asterisk.isAsterisk)
        expect(!path.isAsterisk)
        expect(rejection("*a"), equals: .malformed)
        expect(rejection("**"), equals: .malformed)
    }

    @Test(
        "Rule 14: a target that is neither a path nor an address is rejected, including the authority form of CONNECT",
        arguments: [
            "", "a", "a/b", "a:443", "example.com:443", "?a", "ftp://a/", "http:/a", "http:a", "httpx://a", "http", "h",
            "://a",
        ])
    func malformed(text: String) {
        expect(rejection(text), equals: .malformed)
    }

    @Test(
        "RFC 9110 §7.2: an authority is a host with or without a port",
        arguments: [
            "a", "a.b-c_d~e", "a:80", "a:", "1.2.3.4:65535", "[::1]", "[::ffff:1.2.3.4]:80", "xn--bcher-kva.example",
        ])
    func goodAuthority(text: String) {
        let isValid = Authority.isValid(Array(text.utf8).span)
        expect(isValid)
        expect(rejection("http://\(text)/"), equals: nil)
    }

    @Test(
        "RFC 9110 §4.2.4, §7.2: an authority has no user, is not a list and is not empty",
        arguments: [
            "", ":80", "a@b", "a:b@c", "a,b", "a b", "a:80:80", "a:x", "a:123456", "a:-1", "[::1", "[]", "[:]", "::1",
            "[::1]a", "[::1%25eth0]", "[a.b]x", "a%41", "ä", "a\u{0}", "a\\b", "a#b",
            String(repeating: "a", count: 256),
        ])
    func badAuthority(text: String) {
        let isValid = Authority.isValid(Array(text.utf8).span)
        expect(!isValid)
        expect(rejection("http://\(text)/"), equals: .authority)
    }
}
