import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("The target to continue at")
struct ReturnTargetTests {
    private let routes: RouteTable

    init() throws {
        routes = try LoginFixture.routes()
    }

    @Test(
        "is the normal form of a path that a route serves",
        arguments: [
            ("/", "/"), ("/episodes", "/episodes"), ("/episodes?page=2&x=%2F%2Fh", "/episodes?page=2&x=%2F%2Fh"),
            ("/vide%6Fs/7", "/videos/7"), ("/files/a/b", "/files/a/b"), ("/episodes?next=//h", "/episodes?next=//h"),
        ])
    func accepted(text: String, normal: String) {
        expect(ReturnTarget.normalized(text, routes: routes), equals: normal)
    }

    @Test(
        "Identity rule 8: leads only to routes",
        arguments: [
            "", "episodes", "//h", "///h", "/\\h", "\\\\h", "/%5ch", "/%5Ch", "/%09/h", "/\t/h", "/\n/h", "\t//h",
            " /h",
            "/%0d%0aLocation:x", "/episodes\r\nSet-Cookie: a=b", "https:h", "https://h", "https://h/episodes",
            "http://127.0.0.1/episodes", "javascript:alert(1)", "/%2fh", "/%2F%2Fh", "/./", "/../", "/%2e%2e/", "/;//h",
            "/unknown", "/orders", "/auth", "/auth/login", "/auth/callback", "/auth/sessions", "*", "/episodes#x",
            "/episodes%23", "/ä", "/episodes?ä", "/episodes\u{0}", "/%", "/%e2%80%aeepisodes", "?x", "#", "/@h", "@h",
        ])
    func returnToLeadsOnlyToRoutes(text: String) {
        expect(ReturnTarget.normalized(text, routes: routes), equals: nil)
        expect(ReturnTarget.resolve(text, routes: routes, configured: "/episodes"), equals: "/episodes")
        expect(ReturnTarget.resolve(text, routes: routes, configured: "//h"), equals: "/")
    }

    @Test("A target that is longer than the cookie permits is replaced")
    func length() {
        let longest = "/files/" + String(repeating: "a", count: PendingLogin.maxReturnTarget - 7)
        expect(ReturnTarget.normalized(longest, routes: routes), equals: longest)
        expect(ReturnTarget.normalized(longest + "a", routes: routes), equals: nil)
    }

    @Test("Identity rule 8, fuzzed: a browser that resolves an accepted target stays on this origin")
    func fuzzed() {
        let tokens = [
            "/", "//", "\\", "%5c", "%2f", "%09", "\t", "\r", "\n", "%0a", "h", "episodes", "files", "files/", "..",
            ".",
            "%2e", "?", "#", "%23", "@", ":", "https:", "http://", ";", "%00", "\u{0}", "ä", "%c3%a4", "%", "&", "=",
            " ", "+", "*", "auth", "%6f", "'", "\"", "<",
        ]
        var generator = CountingGenerator(state: 11)
        var accepted = 0
        for _ in 0..<20_000 {
            var text = Bool.random(using: &generator) ? "/files/" : ""
            for _ in 0..<Int.random(in: 1...6, using: &generator) {
                text += tokens.randomElement(using: &generator) ?? ""
            }
            guard let target = ReturnTarget.normalized(text, routes: routes) else { continue }
            accepted += 1
            expect(target.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != UInt8(ascii: "#") }, "\(text)")
            // Browsers remove tabs and line ends, and read a backslash as a slash (WHATWG URL §4.4).
            let path = target.prefix { $0 != "?" }.replacing("\\", with: "/")
            expect(path.hasPrefix("/") && !path.hasPrefix("//"), "\(text)")
            expect(
                ReturnTarget.normalized(target, routes: routes), equals: target, "the normal form is stable: \(text)")
        }
        #expect(accepted > 100)
    }
}
