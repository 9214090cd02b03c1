import CloakroomCore
import CloakroomWire
import Testing

@Suite("Requests that other sites make browsers send")
struct CrossSitePolicyTests {
    private static let configuration = CrossSiteConfiguration(
        trustedOrigins: ["https://partner.test"], corsOrigins: ["https://app.example.com:8443"])

    /// Whether a request with these field lines is refused. It is sent to a listener with TLS, unless told otherwise.
    private func rejects(
        _ kind: CrossSitePolicy.RequestKind, _ fields: [String], host: String = "api.example.com",
        isSecure: Bool = true, isTrusted: Bool = false, configuration: CrossSiteConfiguration = configuration
    ) throws -> Bool {
        var head = try RequestHead.with(lines: ["Host: \(host)"] + fields)
        let authority = try #require(head.fields.first).valueRange
        let summary = RequestHeaderPolicy(injectable: ["X-API-TOKEN"], cookie: SessionCookie(CookieConfiguration()))
            .apply(&head, isTrusted: isTrusted)
        return CrossSitePolicy(configuration)
            .rejects(kind, head, summary: summary, at: .init(isSecure: isSecure, authority: authority))
    }

    /// The same of a request that changes something.
    private func rejects(
        _ fields: [String], host: String = "api.example.com", isSecure: Bool = true, isTrusted: Bool = false,
        configuration: CrossSiteConfiguration = configuration
    ) throws -> Bool {
        try rejects(.unsafe, fields, host: host, isSecure: isSecure, isTrusted: isTrusted, configuration: configuration)
    }

    @Test("Sec-Fetch-Site passes if it says same-origin or none", arguments: ["same-origin", "none"])
    func fetchSite(site: String) throws {
        #expect(try !rejects(["Sec-Fetch-Site: \(site)"]))
        #expect(try !rejects(["Sec-Fetch-Site: \(site)", "Origin: https://api.example.com"]))
        // A page without referrers sends no better origin even to itself.
        #expect(try !rejects(["Sec-Fetch-Site: \(site)", "Origin: null"]))
    }

    @Test(
        "Any other Sec-Fetch-Site fails, whatever Host says",
        arguments: [
            "cross-site", "same-site", "", "Same-Origin", "SAME-ORIGIN", "same-origin, none", "same-origin;x", "None",
            "?1",
        ])
    func otherFetchSite(site: String) throws {
        #expect(try rejects(["Sec-Fetch-Site: \(site)"]))
        #expect(try rejects(["Sec-Fetch-Site: \(site)", "Origin: https://api.example.com"]))
        #expect(try rejects(["Sec-Fetch-Site: \(site)", "Origin: https://evil.test"]))
        #expect(try rejects(["Sec-Fetch-Site: \(site)", "Origin: null"]))
    }

    @Test(
        "Any other Sec-Fetch-Site passes from an origin that is trusted, by either list",
        arguments: ["cross-site", "same-site"])
    func trustedOrigin(site: String) throws {
        #expect(try !rejects(["Sec-Fetch-Site: \(site)", "Origin: https://partner.test"]))
        #expect(try !rejects(["Sec-Fetch-Site: \(site)", "Origin: https://app.example.com:8443"]))
        #expect(try !rejects(["Sec-Fetch-Site: \(site)", "Origin: https://PARTNER.test:443"]))
        #expect(try rejects(["Sec-Fetch-Site: \(site)", "Origin: http://partner.test"]))
        #expect(try rejects(["Sec-Fetch-Site: \(site)", "Origin: https://partner.test:8443"]))
        #expect(try rejects(["Sec-Fetch-Site: \(site)", "Origin: https://app.example.com"]))
        #expect(try rejects(["Sec-Fetch-Site: \(site)", "Origin: https://sub.partner.test"]))
        #expect(try rejects(["Sec-Fetch-Site: \(site)", "Origin: https://partner.test.evil.test"]))
    }

    @Test(
        "Without Sec-Fetch-Site, Origin passes if it is ours",
        arguments: [
            ("https://api.example.com", "api.example.com"), ("https://api.example.com:443", "api.example.com"),
            ("https://api.example.com", "api.example.com:443"), ("https://API.example.com", "Api.Example.Com"),
            ("https://api.example.com:8443", "api.example.com:8443"), ("https://[::1]:8443", "[::1]:8443"),
            ("https://[2001:db8::a]", "[2001:DB8::A]"),
        ])
    func ours(origin: String, host: String) throws {
        #expect(try !rejects(["Origin: \(origin)"], host: host))
    }

    @Test(
        "Without Sec-Fetch-Site, any other Origin fails",
        arguments: [
            "https://evil.test", "http://api.example.com", "https://api.example.com:8443", "https://example.com",
            "https://www.api.example.com", "https://api.example.com.evil.test", "https://evil.test/api.example.com",
            "https://api.example.com@evil.test", "https://evil.test?https://api.example.com", "null", "NULL", "", "*",
            "https://api.example.com/", "https://api.example.com https://evil.test", "api.example.com",
            "//api.example.com", "file://", "chrome-extension://api.example.com", "https://",
        ])
    func others(origin: String) throws {
        #expect(try rejects(["Origin: \(origin)"]))
    }

    @Test("The scheme is the listener's, or what a trusted peer says it is; what cannot be read is nobody's")
    func scheme() throws {
        let secure = ["Origin: https://api.example.com"]
        let clear = ["Origin: http://api.example.com"]
        #expect(try rejects(secure, isSecure: false))
        #expect(try !rejects(clear, isSecure: false))
        #expect(try !rejects(clear, host: "api.example.com:80", isSecure: false))
        #expect(try !rejects(secure + ["X-Forwarded-Proto: https"], isSecure: false, isTrusted: true))
        #expect(try rejects(secure + ["X-Forwarded-Proto: https"], isSecure: false, isTrusted: false))
        #expect(try rejects(clear + ["X-Forwarded-Proto: HTTPS"], isSecure: false, isTrusted: true))
        #expect(try rejects(secure + ["X-Forwarded-Proto: http"], isSecure: true, isTrusted: true))
        #expect(try rejects(secure + ["X-Forwarded-Proto: https, http"], isSecure: true, isTrusted: true))
        #expect(
            try rejects(
                secure + ["X-Forwarded-Proto: https", "X-Forwarded-Proto: https"], isSecure: true, isTrusted: true))
    }

    @Test("A request with neither field is no browser's, and passes")
    func noBrowser() throws {
        #expect(try !rejects([]))
        #expect(try !rejects(.tunnel, []))
        // Nor is a Referer asked for.
        #expect(try !rejects(["Referer: https://evil.test/"]))
    }

    @Test("Two of either field fail, whatever they say")
    func several() throws {
        #expect(try rejects(["Origin: https://api.example.com", "Origin: https://api.example.com"]))
        #expect(try rejects(["Origin: https://partner.test", "origin: https://evil.test"]))
        #expect(try rejects(["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: same-origin"]))
        #expect(try rejects(["Sec-Fetch-Site: same-origin", "sec-fetch-site: cross-site"]))
        #expect(
            try rejects(
                ["Sec-Fetch-Site: same-origin", "Origin: https://api.example.com", "ORIGIN: https://evil.test"]))
    }

    @Test("Connection cannot name the fields away, which would make a browser look like none")
    func namedAway() throws {
        let connection = "Connection: close, origin, sec-fetch-site"
        #expect(try rejects([connection, "Origin: https://evil.test"]))
        #expect(try rejects([connection, "Sec-Fetch-Site: cross-site"]))
    }

    @Test("What only asks passes from anywhere, a WebSocket does not")
    func kinds() throws {
        let fields = ["Origin: https://evil.test", "Sec-Fetch-Site: cross-site"]
        #expect(try !rejects(.safe, fields))
        #expect(try rejects(.unsafe, fields))
        #expect(try rejects(.tunnel, fields))
        #expect(try rejects(.tunnel, ["Origin: https://evil.test"]))
        #expect(try !rejects(.tunnel, ["Origin: https://api.example.com"]))
        #expect(try !rejects(.tunnel, ["Origin: https://partner.test"]))
    }

    @Test("An authority that is missing is nobody's")
    func noAuthority() throws {
        var head = try RequestHead.with("Origin: https://api.example.com", start: "POST / HTTP/1.0")
        let summary = RequestHeaderPolicy(injectable: [], cookie: SessionCookie(CookieConfiguration()))
            .apply(&head, isTrusted: false)
        let policy = CrossSitePolicy(Self.configuration)
        #expect(policy.rejects(.unsafe, head, summary: summary, at: .init(isSecure: true, authority: nil)))
    }

    @Test("A list entry that is no origin trusts nobody", arguments: ["*", "null", "https://*", "evil.test", ""])
    func badList(entry: String) throws {
        let configuration = CrossSiteConfiguration(trustedOrigins: [entry], corsOrigins: [entry])
        for origin in ["https://evil.test", "null", "*", entry] {
            #expect(try rejects(["Origin: \(origin)"], configuration: configuration))
        }
    }

    // MARK: - The required field

    private static let requiring = CrossSiteConfiguration(
        trustedOrigins: ["https://partner.test"], requiredField: .init(name: "X-CSRF", value: "1"))

    @Test("The required field is asked for of every method, besides where the request comes from")
    func required() throws {
        let configuration = Self.requiring
        #expect(try rejects(.safe, [], configuration: configuration))
        #expect(try rejects(.unsafe, [], configuration: configuration))
        #expect(try rejects(.unsafe, ["Sec-Fetch-Site: same-origin"], configuration: configuration))
        #expect(try !rejects(.safe, ["X-CSRF: 1"], configuration: configuration))
        #expect(try !rejects(.unsafe, ["x-csrf: 1", "Sec-Fetch-Site: same-origin"], configuration: configuration))
        #expect(try rejects(.unsafe, ["X-CSRF: 1", "Sec-Fetch-Site: cross-site"], configuration: configuration))
        #expect(try !rejects(.safe, ["X-CSRF: 1", "Sec-Fetch-Site: cross-site"], configuration: configuration))
        #expect(CrossSitePolicy(configuration).checksSafeRequests)
        #expect(!CrossSitePolicy(Self.configuration).checksSafeRequests)
    }

    @Test(
        "Another value, another spelling or a second one is not the required field",
        arguments: [
            ["X-CSRF: 0"], ["X-CSRF: 11"], ["X-CSRF:"], ["X_CSRF: 1"], ["X-CSRFX: 1"], ["X-CSR: 1"],
            ["X-CSRF: 1", "X-CSRF: 1"], ["X-CSRF: 1", "x-csrf: 2"],
        ])
    func notRequired(fields: [String]) throws {
        #expect(try rejects(.safe, fields, configuration: Self.requiring))
    }

    @Test("Where the required field is one that is known, or has a value with case, it is found all the same")
    func requiredKnown() throws {
        let configuration = CrossSiteConfiguration(requiredField: .init(name: "User-Agent", value: "Shop"))
        #expect(try !rejects(.safe, ["user-agent: Shop"], configuration: configuration))
        #expect(try rejects(.safe, ["user-agent: shop"], configuration: configuration))
    }

    @Test("A page cannot add a field to a WebSocket's request: its origin has to do")
    func requiredForTunnels() throws {
        #expect(try !rejects(.tunnel, ["Origin: https://api.example.com"], configuration: Self.requiring))
        #expect(try rejects(.tunnel, ["Origin: https://evil.test"], configuration: Self.requiring))
    }
}
