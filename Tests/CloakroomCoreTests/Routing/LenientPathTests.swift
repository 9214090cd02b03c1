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
        #expect(Self.canonical(path) == expected)
        let isEqual = LenientPath.isEqual(Array(path.utf8).span, to: Array(expected.utf8).span)
        #expect(isEqual)
    }

    @Test(
        "Paths that no folding makes equal are different",
        arguments: [
            "/", "/aut", "/authx", "/auth/x", "/x/auth", "/auth.json", "/auth%20x", "/%20auth", "/.auth", "/a/uth",
            "/auth-", "/au%20th", "/auth%C3%A9", "/auth/./x", "/%C5%BEauth", "/auth%2Dx", "/auth/%E2%84%AA",
        ])
    func different(path: String) {
        #expect(!Self.isEqual(path, to: "/auth"))
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
            #expect(isEqual == (Self.canonical(path) == Self.canonical(expected)), "\(path) \(expected)")
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
