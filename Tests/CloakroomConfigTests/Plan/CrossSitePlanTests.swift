import CloakroomConfig
import CloakroomCore
import Foundation
import Testing

@Suite struct CrossSiteConfigurationTests {
    /// The good configuration with a line in front of the section `session`, which stands in line 10.
    private func directory(_ line: String) throws -> ConfigFixture {
        try ConfigFixture(ConfigFixture.good.replacingOccurrences(of: "session:", with: line + "\nsession:"))
    }

    @Test func nothingIsTrustedByDefault() throws {
        #expect(try ConfigFixture().load().configuration.crossSite == CrossSiteConfiguration())
    }

    @Test(arguments: [
        ("https://app.example.com", "https://app.example.com"),
        ("HTTPS://App.Example.com:443", "https://app.example.com"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://localhost:80", "http://localhost"),
        ("https://[::1]", "https://[::1]"),
    ])
    func anOriginIsKeptAsBrowsersWriteIt(_ text: String, _ origin: String) throws {
        #expect(
            try directory("cors: { origins: [\"\(text)\"] }").load().configuration.crossSite.corsOrigins == [origin])
    }

    @Test(arguments: [
        ("*", "* would let every site act in the name of whoever is signed in (write the origins, one by one)"),
        (
            "https://*.a.test",
            "\"https://*.a.test\" holds a wildcard: whoever gets a name under it would be trusted too"
                + " (write the origins, one by one)"
        ),
        ("null", "null is what any page can call itself (leave it out)"),
        ("https://a.test/", "an origin has no path, not even a slash (write https://a.test)"),
        ("https://joe:pw@a.test", "an origin takes no user and no password (\(example))"),
        ("a.test", "\"a.test\" is not an origin (\(example))"),
        ("ftp://a.test", "\"ftp://a.test\" is not an origin (\(example))"),
        ("https://", "\"https://\" has no valid host and port (\(example))"),
        ("https://a.test:0", "\"https://a.test:0\" has no valid host and port (\(example))"),
    ])
    func whatIsNoOriginIsToldWithTheReason(_ text: String, _ valueError: String) throws {
        let place = "cloakroom.yaml:10:"
        #expect(
            try directory("cors: { origins: [\"\(text)\"] }").valueErrors() == [
                place + "19: cors.origins.0: " + valueError
            ])
        #expect(
            try directory("csrf: { trustedOrigins: [\"\(text)\"] }").valueErrors() == [
                place + "26: csrf.trustedOrigins.0: " + valueError
            ])
    }

    private static let example = "write one such as https://app.example.com, or with a port https://localhost:3000"

    @Test(arguments: [
        ("csrf: { requireHeader: { name: X-CSRF } }", "9: csrf.requireHeader.value: is missing (write it)"),
        (
            "csrf: { requireHeader: { name: Accept, value: x } }",
            "32: csrf.requireHeader.name: Accept would keep no other site out (write a field of its own such as X-CSRF)"
        ),
        (
            "csrf: { requireHeader: { name: X-CSRF, value: a b } }",
            "47: csrf.requireHeader.value: \"a b\" is not visible ASCII (write a word such as 1)"
        ),
        ("cors: { maxAge: 2d }", "17: cors.maxAge: 2d is out of range (write 0s to 1d)"),
        ("cors: \"*\"", "1: cors: expects keys, not one value (write its keys below it, indented)"),
        (
            "admin: { token: short-canary }",
            "17: admin.token: is shorter than 16 bytes (make one with openssl rand -hex 32)"
        ),
        (
            "admin: { token: \"canary with blanks\" }",
            "17: admin.token: holds characters that cannot stand in a bearer token"
                + " (use visible ASCII without blanks; a file may end with one line break)"
        ),
        (
            "accounts: { throttle: often }",
            "23: accounts.throttle: \"often\" is neither true nor false (write true or false)"
        ),
    ])
    func aValueErrorIsToldWithItsPlace(_ line: String, _ valueError: String) throws {
        let valueErrors = try directory(line).valueErrors()
        #expect(valueErrors == ["cloakroom.yaml:10:" + valueError])
        #expect(!valueErrors.joined().contains("canary"))
    }

    @Test func theOperatorsTokenIsReadFromItsFile() throws {
        let directory = try directory("admin: { tokenFile: token }")
        try directory.write("0123456789abcdef\n", to: "token")
        #expect(try directory.load().configuration.admin?.token == Secret("0123456789abcdef"))
    }
}
