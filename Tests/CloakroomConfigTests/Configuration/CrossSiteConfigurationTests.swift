import CloakroomConfig
import Foundation
import TestSupport
import Testing

@testable import CloakroomCore

@Suite struct CrossSiteConfigurationTests {
    /// The valid configuration with a line before the section `session`, which is in line 10.
    private func directory(_ line: String) throws -> ConfigFixture {
        try ConfigFixture(ConfigFixture.good.replacingOccurrences(of: "session:", with: line + "\nsession:"))
    }

    @Test func nothingIsTrustedByDefault() throws {
        try expect(ConfigFixture().load().configuration.crossSite, equals: CrossSiteConfiguration())
    }

    @Test(arguments: [
        ("https://app.example.com", "https://app.example.com"),
        ("HTTPS://App.Example.com:443", "https://app.example.com"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://localhost:80", "http://localhost"),
        ("https://[::1]", "https://[::1]"),
    ])
    func anOriginIsKeptAsBrowsersWriteIt(_ text: String, _ origin: String) throws {
        try expect(
            directory("cors: { origins: [\"\(text)\"] }").load().configuration.crossSite.corsOrigins, equals: [origin])
    }

    @Test(arguments: [
        ("*", "* is not supported: every site could act as the signed-in user (write the origins, one by one)"),
        (
            "https://*.a.test",
            "\"https://*.a.test\" contains a wildcard, which would trust every subdomain"
                + " (write the origins, one by one)"
        ),
        ("null", "null is not supported: any page can have this origin (leave it out)"),
        ("https://a.test/", "must be an origin without a path, not even a slash (write https://a.test)"),
        ("https://joe:pw@a.test", "must be an origin without user and password (\(example))"),
        ("a.test", "must be an origin, not \"a.test\" (write https://a.test or http://a.test)"),
        ("ftp://a.test", "must be an origin, not \"ftp://a.test\" (\(example))"),
        ("https://", "\"https://\" must have a valid host and port (\(example))"),
        ("https://a.test:0", "\"https://a.test:0\" must have a valid host and port (\(example))"),
    ])
    func whatIsNoOriginIsToldWithTheReason(_ text: String, _ valueError: String) throws {
        let place = "cloakroom.yaml:10:"
        try expect(
            directory("cors: { origins: [\"\(text)\"] }").valueErrors(),
            equals: [
                place + "19: cors.origins.0: " + valueError
            ])
        try expect(
            directory("csrf: { trustedOrigins: [\"\(text)\"] }").valueErrors(),
            equals: [
                place + "26: csrf.trustedOrigins.0: " + valueError
            ])
    }

    private static let example = "write one such as https://app.example.com, or with a port https://localhost:3000"

    @Test(
        arguments: pairs(
            #"""
            csrf: { requireHeader: X-CSRF }
            → 24: csrf.requireHeader: must be name=value, not "X-CSRF" (write one such as X-CSRF=1)
            csrf: { requireHeader: Accept=x }
            → 24: csrf.requireHeader: Accept can be set by cross-site requests and gives no CSRF protection (write a custom field such as X-CSRF=1)
            csrf: { requireHeader: X-CSRF=a b }
            → 24: csrf.requireHeader: must have a value of visible ASCII, not "a b" (write a word such as 1)
            cors: "*"
            → 1: cors: must be a section of keys, not one value (write its keys below it, indented)
            admin: { token: short-canary }
            → 17: admin.token: must be at least 16 bytes long (make one with openssl rand -hex 32)
            admin: { token: "canary with blanks" }
            → 17: admin.token: must be visible ASCII to fit in a bearer token (use visible ASCII without blanks; a file may end with one line break)
            accounts: { throttle: often }
            → 23: accounts.throttle: must be true or false, not "often" (write true or false)
            """#))
    func aValueErrorIsToldWithItsPlace(_ line: String, _ valueError: String) throws {
        let valueErrors = try directory(line).valueErrors()
        expect(valueErrors, equals: ["cloakroom.yaml:10:" + valueError])
        expect(!valueErrors.joined().contains("canary"))
    }

    @Test func theOperatorsTokenIsReadFromItsFile() throws {
        let directory = try directory("admin: { tokenFile: token }")
        try directory.write("0123456789abcdef\n", to: "token")
        try expect(directory.load().configuration.admin?.token, equals: Secret("0123456789abcdef"))
    }
}
