import CloakroomWire
import Testing

@testable import CloakroomCore

@Suite("Path patterns")
struct PathPatternTests {
    @Test(
        "A pattern is read into its segments",
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
        #expect(pattern.segments == segments)
        #expect(pattern.description == text)
    }

    @Test(
        "What is no pattern is refused with what is wrong and what to write",
        arguments: [
            ("", "a path starts with a slash"), ("a", "write \"/a\""), ("{id}", "a path starts with a slash"),
            ("//", "a single slash"), ("/a//b", "a single slash"), ("//a", "a single slash"),
            ("/*/a", "as the last segment"), ("/**", "as the last segment"), ("/a/{*}", "as the last segment"),
            ("/a*", "no literal segment may have"), ("/*a", "no literal segment may have"),
            ("/{}", "is no parameter"), ("/{a", "is no parameter"), ("/a}", "is no parameter"),
            ("/x{a}", "is no parameter"), ("/{a}x", "is no parameter"), ("/{a b}", "is no parameter"),
            ("/{{a}}", "is no parameter"), ("/{ä}", "is no parameter"),
            ("/{a}/{a}", "stands twice"),
            ("/things/:id", "\":id\" begins with a colon, which makes no parameter (write \"{id}\")"),
            ("/:", "write \"{id}\""), ("/a/:b.c", "write \"{id}\""), ("/a/:my-id/b", "write \"{my-id}\""),
            ("/.", "dot segments"), ("/a/../b", "dot segments"),
            ("/a;b", "no literal segment may have"), ("/a?b", "no literal segment may have"),
            ("/a#b", "no literal segment may have"), ("/a%20b", "no literal segment may have"),
            ("/a b", "no literal segment may have"), ("/a\\b", "no literal segment may have"),
            ("/ä", "no literal segment may have"), ("/a\u{0}", "no literal segment may have"),
            ("/a\r\nb", "no literal segment may have"), ("/[1]", "no literal segment may have"),
            ("/\u{301}a", "no literal segment may have"),
        ])
    func bad(text: String, message: String) {
        let error = #expect(throws: PathPatternError.self) { try PathPattern(text) }
        #expect(error?.description.contains(message) == true, "\(error?.description ?? "")")
    }

    @Test("Every character that a literal may have can stand in a target, and no other; a plus has two forms")
    func literalsMatchTargets() {
        #expect(throws: PathPatternError.self) { try PathPattern("/a+b") }
        for byte in UInt8.min..<0x80 where !"/{}*.+".utf8.contains(byte) {
            let text = "/a" + String(Unicode.Scalar(byte))
            var scratch: [UInt8] = []
            let target = try? RequestTarget.parse(Array(text.utf8).span, scratch: &scratch)
            let isLiteral = (try? PathPattern(text)) != nil
            #expect(isLiteral == (target != nil && target?.query.isEmpty == true), "\(text.debugDescription)")
        }
    }
}
