import CloakroomCore
import TestSupport
import Testing

@Suite("A host and a port")
struct HostAndPortTests {
    @Test(
        "are parsed from their textual form",
        arguments: [
            ("127.0.0.1:8080", "127.0.0.1", 8080), ("localhost:0", "localhost", 0), ("[::1]:65535", "::1", 65_535),
            ("api.example.com:443", "api.example.com", 443), ("a_b-c:1", "a_b-c", 1),
        ])
    func good(text: String, host: String, port: Int) {
        expect(HostAndPort(text), equals: HostAndPort(host: host, port: port))
        expect(HostAndPort(text)?.description, equals: text)
    }

    @Test(
        "are not parsed from anything else",
        arguments: [
            "", ":", ":80", "a", "a:", "a:x", "a:65536", "a:-1", "a:-0", "a:+80", "a: 80", "a:80 ", "::1:80", "[]:80",
            "[::1]",
            "[::1:80", "::1]:80", "[a]:80", "[1.2.3.4]:80", "a:b:80", "a/b:80", "http://a:80", "u@a:80", "a b:80",
            "ä:80",
            "a\r\nb:80", "a\u{0}:80", "[fe80::1%eth0]:80", "a:٨", "a,b:80",
        ])
    func bad(text: String) {
        expect(HostAndPort(text), equals: nil)
    }
}
