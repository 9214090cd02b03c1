import CloakroomCore
import TestSupport
import Testing

@Suite("The URL of an endpoint")
struct EndpointURLTests {
    @Test(
        "is https, or http on this machine",
        arguments: [
            ("https://id.example.com", "", false), ("https://id.example.com/", "/", false),
            ("https://id.example.com:8443/a/b?c=d", "/a/b?c=d", true), ("https://id.example.com?c", "?c", true),
            ("http://127.0.0.1:8080/x", "/x", false), ("http://localhost", "", false), ("http://[::1]:1/", "/", false),
            ("https://[2001:db8::1]/", "/", false),
        ])
    func accepted(text: String, target: String, hasQuery: Bool) throws {
        let url = try require(EndpointURL(text))
        expect(url.text, equals: text)
        expect(url.target, equals: target)
        expect(url.hasQuery, equals: hasQuery)
    }

    @Test(
        "Everything that two parsers may read differently is rejected",
        arguments: [
            "", "https://", "https:///x", "id.example.com", "//id.example.com", "ftp://a", "http://id.example.com",
            "http://127.0.0.1.example.com", "http://localhost.example.com", "http://128.0.0.1", "http://[::2]",
            "http://0x7f.1", "http://2130706433", "HTTPS://a", "https://u@a", "https://u:p@a/", "https://a@b",
            "https://a#x", "https://a/#", "https://a\\b", "https://a/\\b", "https://a b", "https://a\t", "https://a\n",
            "https://ä", "https://a/ä", "https://a:0", "https://a:65536", "https://a:x", "https://a/\"", "https://a/<",
            "https:/a", "https:a", "javascript:alert(1)", "https://a,b", "https://[::1",
        ])
    func rejected(text: String) {
        expect(EndpointURL(text), equals: nil)
    }

    @Test("A URL is at most 2 KiB long")
    func length() {
        let start = "https://a/"
        let longest = start + String(repeating: "x", count: EndpointURL.maxLength - start.utf8.count)
        expect(EndpointURL(longest) != nil)
        expect(EndpointURL(longest + "x"), equals: nil)
    }
}
