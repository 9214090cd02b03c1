import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Path patterns")
struct PathPatternTests {
    @Test(
        "A pattern is parsed into its segments",
        arguments: [
            ("/", [.literal("")]),
            ("/a", [.literal("a")]),
            ("/a/", [.literal("a"), .literal("")]),
            ("/videos/{id}", [.literal("videos"), .parameter("id")]),
            ("/{a}/{b-1}/x", [.parameter("a"), .parameter("b-1"), .literal("x")]),
            ("/{a}/", [.parameter("a"), .literal("")]),
            ("/*", [.wildcard]),
            ("/files/*", [.literal("files"), .wildcard]),
            ("/{a}/*", [.parameter("a"), .wildcard]),
            ("/-._~!$&'(),=:@", [.literal("-._~!$&'(),=:@")]),
            ("/...", [.literal("...")]),
            ("/things:batchGet", [.literal("things:batchGet")]),
        ] as [(String, [PathPattern.Segment])])
    func good(text: String, segments: [PathPattern.Segment]) throws {
        let pattern = try PathPattern(text)
        expect(pattern.segments, equals: segments)
        expect(pattern.description, equals: text)
    }

    @Test(
        "An invalid pattern is rejected with the problem and a suggestion",
        arguments: [
            ("", "a path starts with a slash"), ("a", "write \"/a\""), ("{id}", "a path starts with a slash"),
            ("//", "a single slash"), ("/a//b", "a single slash"), ("//a", "a single slash"),
            ("/*/a", "as the last segment"), ("/**", "as the last segment"), ("/a/{*}", "as the last segment"),
            ("/a*", "not allowed in a literal segment"), ("/*a", "not allowed in a literal segment"),
            ("/{}", "is not a parameter"), ("/{a", "is not a parameter"), ("/a}", "is not a parameter"),
            ("/x{a}", "is not a parameter"), ("/{a}x", "is not a parameter"), ("/{a b}", "is not a parameter"),
            ("/{{a}}", "is not a parameter"), ("/{ä}", "is not a parameter"),
            ("/{a}/{a}", "is used twice"),
            ("/things/:id", "\":id\" begins with a colon, which does not define a parameter (write \"{id}\")"),
            ("/:", "write \"{id}\""), ("/a/:b.c", "write \"{id}\""), ("/a/:my-id/b", "write \"{my-id}\""),
            ("/.", "dot segments"), ("/a/../b", "dot segments"),
            ("/a/**", "(write \"/a/*\")"), ("/a/{b}/**/c", "(write \"/a/{b}/*\")"),
            ("/a/*/c", "(write \"/a/*\")"),
            ("http://u:p@a.test/b/{c}?d", "a path has no scheme and no host (write \"/b/{c}\")"),
            ("https://a.test", "(write \"/\")"), (" /a", "a path starts with a slash (write \"/a\")"),
            ("POST /v2/open", "a path has no method (write \"/v2/open\", and POST under method or methods)"),
            ("^/items/.*$", "is no regular expression (write such as \"/videos/{id}\" or \"/videos/*\")"),
            ("a b", "write such as \"/videos/{id}\""),
            ("/a?x=1", "a query is not part of a path (write \"/a\")"),
            ("/a#b", "a fragment is not part of a path (write \"/a\")"),
            ("/h%65llo", "\"%65\" never occurs: paths are compared decoded (write \"e\")"),
            ("/a%20b", "\"%20\" is not possible in a literal segment (use a parameter"),
            ("/a%2Fb", "\"%2F\" is not possible"), ("/a%2Bb", "\"%2B\" is not possible"),
            ("/a%", "\"%\" is not possible"), ("/a%zz", "\"%zz\" is not possible"),
            ("/a b", "\"a b\" contains a blank"), ("/a ", "remove it"), ("/{a?}", "is not a parameter"),
            ("/a;b", "not allowed in a literal segment"), ("/a\\b", "not allowed in a literal segment"),
            ("/ä", "not allowed in a literal segment"), ("/a\u{0}", "not allowed in a literal segment"),
            ("/a\r\nb", "not allowed in a literal segment"), ("/[1]", "not allowed in a literal segment"),
            ("/\u{301}a", "not allowed in a literal segment"),
        ])
    func bad(text: String, message: String) {
        let error = #expect(throws: PathPatternError.self) { try PathPattern(text) }
        expect(error?.description.contains(message), equals: true, "\(error?.description ?? "")")
    }

    @Test("Literals allow exactly the characters of normalized targets, except those that have two forms")
    func literalsMatchTargets() {
        #expect(throws: PathPatternError.self) { try PathPattern("/a+b") }
        for byte in UInt8.min..<0x80 where !"/{}*.+[]|".utf8.contains(byte) {
            let text = "/a" + String(Unicode.Scalar(byte))
            var scratch: [UInt8] = []
            let target = try? RequestTarget.parse(Array(text.utf8).span, scratch: &scratch)
            let isLiteral = (try? PathPattern(text)) != nil
            expect(isLiteral, equals: target != nil && target?.query.isEmpty == true, "\(text.debugDescription)")
        }
    }
}
