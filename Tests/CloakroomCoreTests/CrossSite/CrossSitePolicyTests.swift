import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Cross-site request policy")
struct CrossSitePolicyTests {
    private static let configuration = CrossSiteConfiguration(
        trustedOrigins: ["https://partner.test"], corsOrigins: ["https://app.example.com:8443"])

    /// Whether a request with these field lines is rejected. By default it is sent to a TLS listener.
    private func rejects(
        _ kind: CrossSitePolicy.RequestKind, _ fields: [String], host: String = "api.example.com",
        isSecure: Bool = true, isTrusted: Bool = false, configuration: CrossSiteConfiguration = configuration,
        isNavigation: Bool = false
    ) throws -> Bool {
        var head = try RequestHead.with(lines: ["Host: \(host)"] + fields)
        let authority = try require(head.fields.first).valueRange
        let summary = RequestHeaderPolicy(injectable: ["X-API-TOKEN"], cookie: SessionCookie(CookieConfiguration()))
            .apply(&head, isTrusted: isTrusted)
        return CrossSitePolicy(configuration)
            .rejects(
                kind, head, summary: summary, at: .init(isSecure: isSecure, authority: authority),
                isNavigation: isNavigation)
    }

    @Test("A form that a browser submits needs no required field, but the same origin as everything else")
    func forms() throws {
        let configuration = CrossSiteConfiguration(requiredField: .init(name: "X-CSRF", value: "1"))
        func rejects(_ fields: [String]) throws -> Bool {
            try self.rejects(.unsafe, fields, configuration: configuration, isNavigation: true)
        }
        try expect(!rejects(["Sec-Fetch-Site: same-origin"]))
        try expect(!rejects(["Origin: https://api.example.com"]))
        try expect(rejects(["Sec-Fetch-Site: cross-site", "X-CSRF: 1"]))
        try expect(rejects(["Sec-Fetch-Site: same-site"]))
        try expect(rejects(["Origin: https://evil.test"]))
        try expect(rejects(["Origin: null"]))
        try expect(self.rejects(.unsafe, ["Sec-Fetch-Site: same-origin"], configuration: configuration))
    }

    /// Whether an unsafe request with these field lines is rejected.
    private func rejects(
        _ fields: [String], host: String = "api.example.com", isSecure: Bool = true, isTrusted: Bool = false,
        configuration: CrossSiteConfiguration = configuration
    ) throws -> Bool {
        try rejects(.unsafe, fields, host: host, isSecure: isSecure, isTrusted: isTrusted, configuration: configuration)
    }

    @Test("Sec-Fetch-Site is accepted if it is same-origin or none", arguments: ["same-origin", "none"])
    func fetchSite(site: String) throws {
        try expect(!rejects(["Sec-Fetch-Site: \(site)"]))
        try expect(!rejects(["Sec-Fetch-Site: \(site)", "Origin: https://api.example.com"]))
        // A page with a no-referrer policy sends `null` even to its own origin.
        try expect(!rejects(["Sec-Fetch-Site: \(site)", "Origin: null"]))
    }

    @Test(
        "Any other Sec-Fetch-Site is rejected, regardless of Host",
        arguments: [
            "cross-site", "same-site", "", "Same-Origin", "SAME-ORIGIN", "same-origin, none", "same-origin;x", "None",
            "?1",
        ])
    func otherFetchSite(site: String) throws {
        try expect(rejects(["Sec-Fetch-Site: \(site)"]))
        try expect(rejects(["Sec-Fetch-Site: \(site)", "Origin: https://api.example.com"]))
        try expect(rejects(["Sec-Fetch-Site: \(site)", "Origin: https://evil.test"]))
        try expect(rejects(["Sec-Fetch-Site: \(site)", "Origin: null"]))
    }

    @Test(
        "Any other Sec-Fetch-Site is accepted from an origin in either trusted list",
        arguments: ["cross-site", "same-site"])
    func trustedOrigin(site: String) throws {
        try expect(!rejects(["Sec-Fetch-Site: \(site)", "Origin: https://partner.test"]))
        try expect(!rejects(["Sec-Fetch-Site: \(site)", "Origin: https://app.example.com:8443"]))
        try expect(!rejects(["Sec-Fetch-Site: \(site)", "Origin: https://PARTNER.test:443"]))
        try expect(rejects(["Sec-Fetch-Site: \(site)", "Origin: http://partner.test"]))
        try expect(rejects(["Sec-Fetch-Site: \(site)", "Origin: https://partner.test:8443"]))
        try expect(rejects(["Sec-Fetch-Site: \(site)", "Origin: https://app.example.com"]))
        try expect(rejects(["Sec-Fetch-Site: \(site)", "Origin: https://sub.partner.test"]))
        try expect(rejects(["Sec-Fetch-Site: \(site)", "Origin: https://partner.test.evil.test"]))
    }

    @Test(
        "Without Sec-Fetch-Site, the gateway's own origin is accepted",
        arguments: [
            ("https://api.example.com", "api.example.com"), ("https://api.example.com:443", "api.example.com"),
            ("https://api.example.com", "api.example.com:443"), ("https://API.example.com", "Api.Example.Com"),
            ("https://api.example.com:8443", "api.example.com:8443"), ("https://[::1]:8443", "[::1]:8443"),
            ("https://[2001:db8::a]", "[2001:DB8::A]"),
        ])
    func ours(origin: String, host: String) throws {
        try expect(!rejects(["Origin: \(origin)"], host: host))
    }

    @Test(
        "Without Sec-Fetch-Site, any other origin is rejected",
        arguments: [
            "https://evil.test", "http://api.example.com", "https://api.example.com:8443", "https://example.com",
            "https://www.api.example.com", "https://api.example.com.evil.test", "https://evil.test/api.example.com",
            "https://api.example.com@evil.test", "https://evil.test?https://api.example.com", "null", "NULL", "", "*",
            "https://api.example.com/", "https://api.example.com https://evil.test", "api.example.com",
            "//api.example.com", "file://", "chrome-extension://api.example.com", "https://",
        ])
    func others(origin: String) throws {
        try expect(rejects(["Origin: \(origin)"]))
    }

    @Test("The scheme is the listener's or the one reported by a trusted peer; an invalid one matches no origin")
    func scheme() throws {
        let secure = ["Origin: https://api.example.com"]
        let clear = ["Origin: http://api.example.com"]
        try expect(rejects(secure, isSecure: false))
        try expect(!rejects(clear, isSecure: false))
        try expect(!rejects(clear, host: "api.example.com:80", isSecure: false))
        try expect(!rejects(secure + ["X-Forwarded-Proto: https"], isSecure: false, isTrusted: true))
        try expect(rejects(secure + ["X-Forwarded-Proto: https"], isSecure: false, isTrusted: false))
        try expect(rejects(clear + ["X-Forwarded-Proto: HTTPS"], isSecure: false, isTrusted: true))
        try expect(rejects(secure + ["X-Forwarded-Proto: http"], isSecure: true, isTrusted: true))
        try expect(rejects(secure + ["X-Forwarded-Proto: https, http"], isSecure: true, isTrusted: true))
        try expect(
            rejects(
                secure + ["X-Forwarded-Proto: https", "X-Forwarded-Proto: https"], isSecure: true, isTrusted: true))
    }

    @Test("A request with neither field is not from a browser and is accepted")
    func noBrowser() throws {
        try expect(!rejects([]))
        try expect(!rejects(.tunnel, []))
        // `Referer` is not checked.
        try expect(!rejects(["Referer: https://evil.test/"]))
    }

    @Test("A missing authority matches no origin")
    func noAuthority() throws {
        var head = try RequestHead.with("Origin: https://api.example.com", start: "POST / HTTP/1.0")
        let summary = RequestHeaderPolicy(injectable: [], cookie: SessionCookie(CookieConfiguration()))
            .apply(&head, isTrusted: false)
        let policy = CrossSitePolicy(Self.configuration)
        expect(policy.rejects(.unsafe, head, summary: summary, at: .init(isSecure: true, authority: nil)))
    }

    @Test("An invalid list entry trusts no origin", arguments: ["*", "null", "https://*", "evil.test", ""])
    func badList(entry: String) throws {
        let configuration = CrossSiteConfiguration(trustedOrigins: [entry], corsOrigins: [entry])
        for origin in ["https://evil.test", "null", "*", entry] {
            try expect(rejects(["Origin: \(origin)"], configuration: configuration))
        }
    }

    // MARK: - The required field

    private static let requiring = CrossSiteConfiguration(
        trustedOrigins: ["https://partner.test"], requiredField: .init(name: "X-CSRF", value: "1"))

    @Test(
        "The required field must have its exact name and value and occur once",
        arguments: [
            ["X-CSRF: 0"], ["X-CSRF: 11"], ["X-CSRF:"], ["X_CSRF: 1"], ["X-CSRFX: 1"], ["X-CSR: 1"],
            ["X-CSRF: 1", "X-CSRF: 1"], ["X-CSRF: 1", "x-csrf: 2"],
        ])
    func notRequired(fields: [String]) throws {
        try expect(rejects(.safe, fields, configuration: Self.requiring))
    }

    @Test("The required field is found if it is a known field or has a case-sensitive value")
    func requiredKnown() throws {
        let configuration = CrossSiteConfiguration(requiredField: .init(name: "User-Agent", value: "Shop"))
        try expect(!rejects(.safe, ["user-agent: Shop"], configuration: configuration))
        try expect(rejects(.safe, ["user-agent: shop"], configuration: configuration))
    }
}
