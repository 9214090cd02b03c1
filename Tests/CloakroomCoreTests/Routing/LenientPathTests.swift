import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The lenient comparison of paths")
struct LenientPathTests {
    private static func canonical(_ path: String) -> String {
        String(decoding: LenientPath.canonical(Array(path.utf8).span), as: UTF8.self)
    }

    private static func isEqual(_ path: String, to expected: String) -> Bool {
        let expected = LenientPath.canonical(Array(expected.utf8).span)
        return LenientPath.isEqual(Array(path.utf8).span, to: expected.span)
    }

    @Test(
        "Case, trailing blanks, dots, slashes and parameters are ignored",
        arguments: [
            ("/auth", "auth"), ("/AUTH/", "auth"), ("/Auth%20", "auth"), ("/auth%2520", "auth"), ("/auth+.+", "auth"),
            ("/auth;x=1/;y/refresh.;z", "auth/refresh"), ("//a///b//", "a/b"), ("/", ""), ("/%20/./", ""),
            ("/.a", ".a"),
            ("/a.b/c", "a.b/c"), ("/%2561%2575th", "auth"), ("/%252525252561", "a"), ("/a%252Fb%255Cc", "a/b/c"),
            ("/a%3Fb", "a"), ("/a%2500/b", "a"), ("/a%2523b", "a"), ("/%C4%B0d", "id"), ("/%C4%B1d", "id"),
            ("/%C5%BFign", "sign"), ("/to%E2%84%AAen", "token"), ("/a%C2%A0%E3%80%80%E2%80%83%EF%BB%BF", "a"),
            ("/a%25", "a%"), ("/%C3%A9", "\u{e9}"), ("/ a", " a"), ("/%25C5%25BF", "s"),
        ])
    func canonical(path: String, expected: String) {
        expect(Self.canonical(path), equals: expected)
        let isEqual = LenientPath.isEqual(Array(path.utf8).span, to: Array(expected.utf8).span)
        expect(isEqual)
    }

    @Test(
        "Paths that no folding makes equal are different",
        arguments: [
            "/", "/aut", "/authx", "/auth/x", "/x/auth", "/auth.json", "/auth%20x", "/%20auth", "/.auth", "/a/uth",
            "/auth-", "/au%20th", "/auth%C3%A9", "/auth/./x", "/%C5%BEauth", "/auth%2Dx", "/auth/%E2%84%AA",
        ])
    func different(path: String) {
        expect(!Self.isEqual(path, to: "/auth"))
    }

    @Test("The comparison without allocation equals that of canonical forms", arguments: UInt64(0)..<20)
    func agreement(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let pieces = [
            "/", "/", "a", "A", "b", ".", "%20", "+", ";", "%253B", "%252F", "%3F", "%2561", "%25", "2", "%C5%BF", "s",
            "%E2%84%AA", "%E2", "%84", "k", "%C2%A0", "%252e",
        ]
        func path() -> String {
            "/"
                + (0..<Int.random(in: 0...9, using: &generator)).map { _ in
                    pieces.randomElement(using: &generator) ?? "/"
                }.joined()
        }
        var equal = 0
        for _ in 0..<2_000 {
            let path = path()
            let expected = Bool.random(using: &generator) ? self.path(like: path, &generator) : "/a/s."
            let isEqual = Self.isEqual(path, to: expected)
            expect(isEqual, equals: Self.canonical(path) == Self.canonical(expected), "\(path) \(expected)")
            if isEqual { equal += 1 }
        }
        #expect(equal > 50, "the test covers too few cases")
    }

    /// Returns the path with some of its bytes changed, mostly in ways that the comparison ignores.
    private func path(like path: String, _ generator: inout SeededGenerator) -> String {
        var result = ""
        for character in path {
            result += Bool.random(using: &generator) ? String(character) : character.uppercased()
            if character == "/", Int.random(in: 0..<4, using: &generator) == 0 { result += "%252E/" }
        }
        return result + (["", ".", "%20", "/", ";x", "x"].randomElement(using: &generator) ?? "")
    }

    @Test(
        "A segment that is .. for a server that decodes it again or removes blanks is detected",
        arguments: [
            ("/a/%252e%252e/b", true), ("/a/.%252e", true), ("/%2525252e.", true), ("/a/..%20/b", true),
            ("/a/..+", true),
            ("/a/..%253Bx", true), ("/a%252F..%252Fb", true), ("/a/.../b", true), ("/a/%252e/b", false),
            ("/a/..b", false), ("/a..", false), ("/a/b%20..", false), ("/", false),
        ])
    func parent(path: String, hasParent: Bool) {
        var scratch = Array("left from before".utf8)
        expect(LenientPath.write(Array(path.utf8).span, into: &scratch), equals: hasParent)
    }

    @Test(
        "An encoded separator either acts like a plain one or is an ordinary character",
        arguments: [
            ("/a%252Fb", "a/b/", "a\u{ff}b/"), ("/a%3Fb/c", "a/", "a\u{ff}b/c/"), ("/a%253Bb/c", "a/c/", "a\u{ff}b/c/"),
            ("/A%2500b", "a/", "a\u{ff}b/"), ("/a;b/c", "a/c/", "a/c/"), ("/a%2561/B.", "aa/b/", "aa/b/"),
            ("/", "", ""),
        ])
    func separators(path: String, split: String, whole: String) {
        var scratch: [UInt8] = []
        for (splits, expected) in [(true, split), (false, whole)] {
            _ = LenientPath.write(Array(path.utf8).span, into: &scratch, splitsEncoded: splits)
            expect(scratch, equals: expected.unicodeScalars.map { UInt8($0.value) })
        }
    }

    @Test("A plain path has the same segments in each reading", arguments: UInt64(0)..<10)
    func plain(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let pieces = ["/a", "/B", "a", ".", "-", "%20", "+", "/.", "%252F", "/"]
        var count = 0
        for _ in 0..<2_000 {
            let path =
                "/"
                + (0..<Int.random(in: 0...6, using: &generator)).map { _ in
                    pieces.randomElement(using: &generator) ?? ""
                }
                .joined()
            guard !path.contains("//"), LenientPath.isPlain(Array(path.utf8).span) else { continue }
            count += 1
            let segments = path.split(separator: "/").map { segment in
                var text = segment.lowercased()
                while text.last == "." { text.removeLast() }
                return text
            }
            expect(Self.canonical(path), equals: segments.joined(separator: "/"), "\(path)")
            expect(segments.allSatisfy { !$0.isEmpty }, "\(path)")
        }
        #expect(count > 100, "the test covers too few cases")
    }

    @Test("The comparison takes linear time for a long path")
    func linear() {
        for piece in ["%25", ".", "%2520", "/.", ".a", "%C5", "%E2%84"] {
            let path = Array(("/a" + String(repeating: piece, count: 20_000)).utf8)
            let clock = ContinuousClock()
            let time = clock.measure { _ = LenientPath.isEqual(path.span, to: Array("a/b".utf8).span) }
            #expect(time < .seconds(1), "\(piece)")
        }
    }
}
