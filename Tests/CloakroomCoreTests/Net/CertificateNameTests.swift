import CloakroomCore
import TestSupport
import Testing

@Suite("A host name in a certificate (RFC 9525 §6.3)")
struct CertificateNameTests {
    @Test(
        "matches the same host in any case, with or without a trailing dot; an asterisk matches one label",
        arguments: [
            ("api.example.com", "api.example.com"), ("API.example.com.", "api.EXAMPLE.com"),
            ("localhost", "localhost."),
            ("*.example.com", "api.example.com"), ("*.Example.com", "a-b.example.com"),
        ])
    func matches(presented: String, host: String) {
        expect(CertificateName.matches(Array(presented.utf8), host: host))
    }

    @Test(
        "matches no other host",
        arguments: [
            ("api.example.com", "example.com"), ("example.com", "api.example.com"), ("*.example.com", "example.com"),
            ("*.example.com", "a.b.example.com"), ("*.example.com", ".example.com"),
            ("a*.example.com", "ab.example.com"),
            ("*", "localhost"), ("", "localhost"), ("localhost", ""), ("", ""), ("*.", "a"), ("*.com", "com"),
            ("api.example.com\0.evil.test", "api.example.com"), ("127.0.0.1", "localhost"),
        ])
    func differs(presented: String, host: String) {
        expect(!CertificateName.matches(Array(presented.utf8), host: host))
    }
}
