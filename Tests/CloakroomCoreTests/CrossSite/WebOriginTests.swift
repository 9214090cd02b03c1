import CloakroomCore
import TestSupport
import Testing

@Suite("Web origins (RFC 6454)")
struct WebOriginTests {
    @Test(
        "Origins compare scheme, host and port, ignoring case and treating a missing port as the default",
        arguments: [
            ("https://app.example.com", "https://app.example.com"),
            ("HTTPS://App.Example.COM", "https://app.example.com"),
            ("https://app.example.com:443", "https://app.example.com"),
            ("https://app.example.com:", "https://app.example.com"),
            ("http://app.example.com:80", "http://app.example.com"),
            ("http://app.example.com:443", "http://app.example.com:443"),
            ("https://app.example.com:8443", "https://app.example.com:8443"),
            ("https://[2001:DB8::1]", "https://[2001:db8::1]"),
            ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
            ("http://10.0.0.1:5173", "http://10.0.0.1:5173"),
        ])
    func read(text: String, canonical: String) throws {
        let origin = try require(WebOrigin(text))
        expect("\(origin)", equals: canonical)
        expect(origin, equals: WebOrigin(canonical))
    }

    @Test(
        "Anything else is not an origin",
        arguments: [
            "", "null", "*", "app.example.com", "//app.example.com", "https://", "https:app.example.com",
            "https://app.example.com/", "https://app.example.com/path", "https://app.example.com?x",
            "https://user@app.example.com", "https://*.example.com", "https://a.test https://b.test",
            "https://a.test,https://b.test", "ftp://app.example.com", "file://", "chrome-extension://abcdef",
            "https://app.example.com:port", "https://app.example.com:123456", "https://[::1", "https://::1",
            "https://app.example.com\r\nX: y",
        ])
    func rejected(text: String) {
        expect(WebOrigin(text), equals: nil)
    }
}
