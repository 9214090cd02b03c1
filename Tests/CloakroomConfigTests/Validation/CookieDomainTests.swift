import TestSupport
import Testing

@testable import CloakroomConfig
@testable import CloakroomCore

@Suite("session.cookie.domain")
struct CookieDomainTests {
    /// A configuration whose cookie may be `Secure`.
    private func fixture(_ cookie: String, publicURL: String? = nil, hosts: String = "[]") throws -> ConfigFixture {
        let yaml = ConfigFixture.good.replacing("127.0.0.1:0\n", with: "127.0.0.1:0\n    behindTLSProxy: true\n")
            .replacing("{ secure: false }", with: "{ \(cookie) }")
            .replacing("  - name: video\n", with: "  - name: video\n    hosts: \(hosts)\n")
        return try ConfigFixture(yaml + (publicURL.map { "accounts: { publicURL: \"\($0)\" }\n" } ?? ""))
    }

    @Test("is in lower case, covers the host of the public URL, and is warned about once")
    func valid() throws {
        for url in [nil, "https://example.com", "https://app.Example.com:8443", "https://a.b.example.com"] {
            let fixture = try fixture("name: __Secure-s, domain: Example.com", publicURL: url)
            let loaded = try fixture.load()
            let cookie = loaded.configuration.session.cookie
            expect(cookie, equals: CookieConfiguration(name: "__Secure-s", domain: "example.com"))
            let warnings = loaded.warnings.map(\.description).filter { $0.contains("every host below example.com") }
            expect(warnings.count, equals: 1)
            let printed = fixture.report(CommandReport.printConfig).text.split(separator: "\n")
            expect(printed.contains { $0.contains("session.cookie.domain") && $0.contains(" example.com ") })
        }
    }

    @Test("errors are reported with a remedy")
    func errors() throws {
        let both = "name: __Secure-s, domain: example.com"
        let demand = "domain: requires a name with the prefix __Secure-, not"
        let cover = "domain: must cover the host of publicURL, "
        let rows: [(cookie: String, url: String?, error: String)] = [
            (
                "domain: example.com", nil,
                "\(demand) \"__Host-cloakroom\" (write session.cookie.name: __Secure-cloakroom)"
            ),
            ("name: s, domain: example.com", nil, "\(demand) \"s\" (write session.cookie.name: __Secure-s)"),
            ("name: __Secure-, domain: a.com", nil, "name: must have a name after the prefix (write __Secure-cloak"),
            ("name: __Secure-s", nil, "name: must be a name with the prefix __Host-, not \"__Secure-s\" (write"),
            (both, "https://example.org", cover), (both, "https://notexample.com", cover),
            (both, "https://example.com.a.test", cover), (both, "https://[::1]", cover),
        ]
        let malformed = [
            "com", ".example.com", "example.com.", "a..com", "example.com:443", "10.0.0.1", "a.1", "[::1]", "a.com/",
            "b\u{fc}cher.example", "-a.com", "a-.com", "a_b.com", "https://example.com", "*.example.com",
            String(repeating: "a", count: 64) + ".com",
        ].map { ("name: __Secure-s, domain: \"\($0)\"", String?.none, "domain: must be a domain of at least two") }
        for (cookie, url, error) in rows + malformed {
            let errors = try fixture(cookie, publicURL: url).valueErrors()
            expect(errors.count == 1 && errors[0].contains(": session.cookie.\(error)"), "\(errors)")
        }
        let development = try ConfigFixture.valueErrors(replacing: "secure: false", by: "secure: false, domain: a.com")
        expect(development.count == 1 && development[0].contains("domain: conflicts with secure: false"))
    }

    @Test("is warned about where it does not cover a host of a route with sessions")
    func hosts() throws {
        let hosts = "[\"*.example.com\", example.com, a.org]"
        let fixture = try fixture("name: __Secure-s, domain: example.com", hosts: hosts)
        let warnings = try fixture.load().warnings.map(\.description).filter { $0.contains("does not cover") }
        expect(warnings.map { $0.contains("hosts.2: session.cookie.domain does not cover a.org") }, equals: [true])
    }

    @Test("changes with a restart")
    func restart() throws {
        let running = try fixture("name: __Secure-s, domain: example.com").load().configuration
        let next = try fixture("name: __Secure-s, domain: a.example.com").load()
        expect(next.restartRequirements(since: running).map(\.key), equals: ["session.cookie.domain"])
        expect(RestartRequiredKeys.contains(["session", "cookie", "domain"]))
    }
}
