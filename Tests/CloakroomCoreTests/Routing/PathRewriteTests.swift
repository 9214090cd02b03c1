import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Rewriting of paths")
struct PathRewriteTests {
    private static func rewrite(_ path: String, _ sent: String) throws -> PathRewrite {
        try PathRewrite(from: try PathPattern(path), to: try PathPattern(sent))
    }

    private static func apply(_ rewrite: PathRewrite, _ path: String) -> String {
        var result: [UInt8] = []
        rewrite.append(Array(path.utf8).span, to: &result)
        return String(decoding: result, as: UTF8.self)
    }

    @Test(
        "Segments of the normal form are moved as they are",
        arguments: [
            ("/a/*", "/*", "/a/", "/"), ("/a/*", "/*", "/a/b/c", "/b/c"), ("/a/*", "/*", "/a/b/", "/b/"),
            ("/a/*", "/v2/*", "/a/", "/v2/"), ("/a/*", "/v2/*", "/a/x", "/v2/x"), ("/*", "/v2/*", "/", "/v2/"),
            ("/a/*", "/b", "/a/x/y", "/b"), ("/a", "/", "/a", "/"), ("/a/", "/", "/a/", "/"),
            ("/o/{id}/*", "/v2/{id}/*", "/o/7/x/y", "/v2/7/x/y"), ("/o/{id}/*", "/v2/{id}/*", "/o/7/", "/v2/7/"),
            ("/{a}/{b}", "/{b}/{a}", "/1/2", "/2/1"), ("/{a}/{b}/*", "/x/{b}", "/1/2/3/4", "/x/2"),
            ("/{a}/{b}", "/{b}", "/1/2", "/2"), ("/a/*", "/*", "/a/a/x", "/a/x"),
            // Neither decoded a second time nor expanded.
            ("/a/*", "/*", "/a/%2561uth", "/%2561uth"), ("/a/{id}", "/{id}", "/a/b%20c", "/b%20c"),
            ("/a/{id}", "/{id}", "/a/%7Benv.X%7D", "/%7Benv.X%7D"), ("/a/*", "/*", "/a/*", "/*"),
        ])
    func rewritten(_ path: String, _ sent: String, _ request: String, _ expected: String) throws {
        let rewrite = try Self.rewrite(path, sent)
        expect(Self.apply(rewrite, request), equals: expected)
    }

    @Test("A rewritten path is a normal form")
    func rewrittenPathIsANormalForm() throws {
        let patterns = [
            ("/a/*", "/*"), ("/a/*", "/v2/x/*"), ("/*", "/v2/*"), ("/a/{x}/*", "/{x}/*"), ("/a/{x}/{y}", "/{y}/b/{x}"),
            ("/a/{x}/*", "/b"),
        ]
        let parts = ["a", "b.c", "...", ".x", "%20", "%2561", "~", "*", "+", "caf%C3%A9", "%7B%7D", "%25", "x,y"]
        var generator = SeededGenerator(seed: 33)
        for _ in 0..<2_000 {
            let segments = (0..<Int.random(in: 1...4, using: &generator)).map { _ in
                parts[Int.random(in: 0..<parts.count, using: &generator)]
            }
            let path = "/a/" + segments.joined(separator: "/") + (Bool.random(using: &generator) ? "/" : "")
            for (pattern, sent) in patterns {
                let rewrite = try Self.rewrite(pattern, sent)
                let matches = try PathPattern(pattern).covers(PathPattern(segments: Self.literals(path)))
                guard matches else { continue }
                let result = Array(Self.apply(rewrite, path).utf8)
                var scratch: [UInt8] = []
                let target = try RequestTarget.parse(result.span, scratch: &scratch)
                let normal = target.isPathRewritten ? scratch : result
                expect(normal, equals: result, "\(pattern) → \(sent): \(path)")
            }
        }
    }

    private static func literals(_ path: String) -> [PathPattern.Segment] {
        path.dropFirst().split(separator: "/", omittingEmptySubsequences: false).map { .literal(String($0)) }
    }

    @Test("A rewrite uses only what the path has")
    func errors() {
        for (segment, path, remedy) in [
            ("{slug}", "/x/{id}", "{id}"), ("*", "/x/{id}", "{id}"), ("{a}", "/x", "a literal"),
            ("{c}", "/{a}/{b}/*", "{a} or {b} or *"),
        ] {
            let error = #expect(throws: PathPatternError.self) { try Self.rewrite(path, "/v2/\(segment)") }
            expect(
                error?.description,
                equals: "must use names of the path: \(segment) is not in \(path) (write \(remedy))")
        }
    }

    @Test(
        "The prefix that an application has to add is what was removed from the beginning",
        arguments: [
            ("/a/*", "/*", "/a"), ("/a/b/{id}", "/b/{id}", "/a"), ("/a/v2/*", "/v2/*", "/a"), ("/a", "/", "/a"),
            ("/t/{id}/*", "/{id}/*", "/t"), ("/a/*", "/v2/*", ""), ("/*", "/v2/*", ""), ("/t/{id}/*", "/*", ""),
        ])
    func removedPrefix(_ path: String, _ sent: String, _ prefix: String) throws {
        expect(String(decoding: try Self.rewrite(path, sent).removedPrefix, as: UTF8.self), equals: prefix)
    }
}
