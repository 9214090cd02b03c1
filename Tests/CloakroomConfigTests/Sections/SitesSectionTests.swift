import CloakroomConfig
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("sites")
struct SitesSectionTests {
    /// Users sign in with a password or at a provider; at the site `admin` at the provider only.
    private static let yaml = """
        \(ConfigFixture.head)
            signIn: { path: /auth }
        \(ConfigFixture.company)
            tokensFor: [api]
        accounts:
          publicURL: http://localhost:8080
          login: { returnTo: /open }
        session:
          cookie: { secure: false }
        sites:
          admin:
            hosts: [Admin.test, "*.admin.test"]
            publicURL: https://admin.test
            identities: [company]
            cookie: { sameSite: Lax, persistent: always }
        routes:
          - name: data
            methods: [GET]
            path: /data
            upstream: api
            requiresAuthorization: true
            inject: [bearer]
            onMissingSession: login
          - name: open
            methods: [GET]
            path: /open
            upstream: api
            requiresAuthorization: false

        """

    /// The configuration with one replacement.
    private static func changed(_ piece: String, _ other: String) throws -> String {
        try ConfigFixture.changed(yaml, piece, other)
    }

    @Test("A site has its own hosts, public URL, identities and cookie, and accounts have those of all")
    func values() throws {
        let configuration = try ConfigFixture(Self.yaml).load().configuration
        expect(configuration.sites.map(\.name), equals: ["", "admin"])
        expect(configuration.sites.map(\.hosts), equals: [[], ["admin.test", "*.admin.test"]])
        expect(configuration.sites.map(\.publicURL), equals: ["http://localhost:8080", "https://admin.test"])
        expect(configuration.sites.map(\.identities), equals: [[.provider(0), .upstream(0)], [.provider(0)]])
        expect(configuration.sites.map(\.upstream), equals: [0, nil])
        expect(configuration.accounts.identities, equals: [.provider(0), .upstream(0)])
        expect(configuration.accounts.publicURL, equals: "http://localhost:8080")
        let cookies = configuration.sites.indices.map { configuration.site($0).session.cookie }
        expect(cookies.map(\.sameSite), equals: [.strict, .lax])
        expect(cookies.map(\.persistence), equals: [.never, .always])
        expect(Set(cookies.map(\.name)).count, equals: 1)
    }

    @Test("A site without identities has those of accounts, and one may have what the default site does not")
    func inherited() throws {
        let plain = try Self.changed("    identities: [company]\n", "")
        let inherited = try ConfigFixture(plain).load().configuration
        expect(inherited.sites[1].identities == inherited.sites[0].identities && inherited.sites[1].upstream == 0)
        let other = try Self.changed("login: { returnTo: /open }", "identities: [api]")
        let configuration = try ConfigFixture(other).load().configuration
        expect(configuration.sites.map(\.identities), equals: [[.upstream(0)], [.provider(0)]])
        expect(configuration.accounts.identities, equals: [.upstream(0), .provider(0)])
        expect(configuration.sessionSources.count == 2 && configuration.providers.map(\.name) == ["company"])
        try expect(ConfigFixture().load().configuration.sites, equals: [])
    }

    @Test(
        "A mistake is reported with a remedy",
        arguments: [
            ("hosts: [Admin.test, \"*.admin.test\"]", "hosts: []", "sites.admin.hosts: must not be empty"),
            ("    hosts: [Admin.test, \"*.admin.test\"]\n", "", "sites.admin.hosts: required key missing"),
            (
                "    publicURL: https://admin.test\n", "",
                "sites.admin.publicURL: required key missing: redirect URIs of identities are made of it"
            ),
            (
                "https://admin.test", "https://other.test",
                "sites.admin.publicURL: must have a host of the site, not other.test (add it to hosts, or correct"
            ),
            (
                "http://localhost:8080", "https://x.admin.test:8443",
                "accounts.publicURL: x.admin.test conflicts with site \"admin\" (write the origin of a host that no"
            ),
            (
                "[company]\n    cookie", "[compny]\n    cookie",
                "unknown identity \"compny\" (did you mean \"company\"?)"
            ),
            ("sameSite: Lax", "sameSite: None", "sites.admin.cookie.sameSite: must be"),
            ("127.0.0.1:0\n", "127.0.0.1:0\n    development: true\n", "development: conflicts with sites (remove one"),
            ("  admin:\n", "  ad.min:\n", "must be a name without dots"),
            (
                "routes:\n", "  ops: { hosts: [admin.test], identities: [api] }\nroutes:\n",
                "sites.ops.hosts.0: admin.test conflicts with site \"admin\" (keep it in one of the two)"
            ),
        ])
    func mistakes(piece: String, other: String, message: String) throws {
        try ConfigFixture.expectError(message, in: Self.yaml, replacing: piece, by: other)
    }

    @Test("There are at most 16 sites")
    func most() throws {
        func errors(_ count: Int) throws -> [String] {
            let sites = (0..<count).map { "  s\($0): { hosts: [s\($0).test] }\n" }.joined()
            return try ConfigFixture(ConfigFixture.good + "sites:\n" + sites).valueErrors()
        }
        try expect(errors(16), equals: [])
        try expect(
            errors(17).map { $0.contains("sites: must be at most 16 sites, not 17 (remove some)") }, equals: [true])
    }

    /// A site whose hosts share the session, at `name` of the cookie.
    private static func shared(_ site: String, cookie: String = "name: __Secure-s", others: String = "") throws
        -> ConfigFixture
    {
        let yaml = ConfigFixture.good.replacing("127.0.0.1:0\n", with: "127.0.0.1:0\n    behindTLSProxy: true\n")
            .replacing("{ secure: false }", with: "{ \(cookie) }")
        return try ConfigFixture(yaml + "sites:\n  shop: { \(site) }\n" + others)
    }

    @Test("The hosts of a site can share its session, apart from those of all others")
    func domain() throws {
        let site = "hosts: [shop.test, \"*.shop.test\"], cookie: { domain: Shop.test }"
        let loaded = try Self.shared(site, others: "  ops: { hosts: [ops.test] }\n").load()
        let domains = (0...2).map { loaded.configuration.site($0).session.cookie.domain }
        expect(domains, equals: [nil, "shop.test", nil])
        let warnings = loaded.warnings.map(\.description).filter { $0.contains("every host below shop.test") }
        expect(warnings.map { $0.contains("sites.shop.cookie.domain") }, equals: [true])
        let both = try Self.shared(site, cookie: "name: __Secure-s, domain: example.com").load().configuration
        expect((0...1).map { both.site($0).session.cookie.domain }, equals: ["example.com", "shop.test"])
    }

    @Test(
        "A domain that does not cover the hosts of its site, or covers one of another, is an error",
        arguments: [
            ("a.shop.test, b.test", "shop.test", "__Secure-s", "", "must cover b.test"),
            (
                "a.shop.test", "shop.test", "__Secure-s", "  ops: { hosts: [ops.shop.test] }\n",
                "shop.test covers ops.shop.test, a host of site \"ops\" (leave"
            ),
            (
                "b.a.x.test", "a.x.test", "__Secure-s", "  ops: { hosts: [\"*.x.test\"] }\n",
                "a.x.test covers a.x.test, a host of site \"ops\""
            ),
            (
                "a.shop.test", "shop.test", "__Secure-s", "accounts: { publicURL: \"https://shop.test\" }\n",
                "shop.test covers shop.test, a host of the default site"
            ),
            (
                "a.shop.test", "shop.test", "__Host-s", "",
                "requires a name with the prefix __Secure-, not \"__Host-s\" (write session.cookie.name: __Secure-s)"
            ),
            ("a.shop.test", "test", "__Secure-s", "", "must be a domain of at least two labels"),
        ])
    func mistakenDomain(hosts: String, domain: String, name: String, others: String, message: String) throws {
        let site = "hosts: [\(hosts)], cookie: { domain: \(domain) }"
        let errors = try Self.shared(site, cookie: "name: \(name)", others: others).valueErrors()
        expect(errors.count == 1 && errors[0].contains("sites.shop.cookie.domain: \(message)"), "\(errors)")
        let main = try Self.shared("hosts: [a.shop.test]", cookie: "name: __Secure-s, domain: shop.test").valueErrors()
        expect(
            main.map { $0.contains("session.cookie.domain: shop.test covers a.shop.test") }, equals: [true], "\(main)")
    }

    @Test("A host that no listener lists, and logins that cannot end at the site, are warned about")
    func warnings() throws {
        func warnings(_ piece: String, _ other: String) throws -> [String] {
            try ConfigFixture(Self.changed(piece, other)).load().warnings.map(\.description)
        }
        let unlisted = try warnings("127.0.0.1:0\n", "127.0.0.1:0\n    hosts: [localhost, admin.test]\n")
        expect(unlisted.contains { $0.contains("sites.admin.hosts.1: *.admin.test is never served") }, "\(unlisted)")
        let hosts = "path: /data\n    hosts: [localhost, admin.test, x.admin.test]\n"
        let logins = try warnings("path: /data\n", hosts).filter { $0.contains("logins that begin at") }
        expect(
            logins.map {
                $0.contains("x.admin.test fail: they end at admin.test, the host of sites.admin.publicURL")
            }, equals: [true], "\(logins)")
    }

    @Test("explain and routes have the site of a host, with what users sign in with there")
    func reports() throws {
        let fixture = try ConfigFixture(Self.yaml)
        func explain(_ method: String, _ host: String, _ target: String) -> [String] {
            fixture.report { CommandReport.explain($0, method: method, target: target, host: host) }.rows
        }
        let admin = explain("GET", "x.admin.test", "/data")
        expect(admin.contains("site: admin") && admin.contains { $0.contains("signs in at company, all else") })
        expect(admin.contains { $0.hasPrefix("sessions: of company (its own token)") }, "\(admin)")
        let other = explain("GET", "localhost", "/data")
        expect(other.contains("site: (default)") && other.contains { $0.contains("signs in on the sign-in page") })
        expect(other.contains { $0.hasPrefix("sessions: of upstream api (its own token), company") }, "\(other)")
        expect(explain("POST", "admin.test", "/auth").contains("response: 404: site admin has no such endpoint"))
        expect(explain("POST", "localhost", "/auth").contains { $0.hasPrefix("response: local response") })
        let table = fixture.report { CommandReport.routes($0) }.rows
        let both = "(default),admin"
        expect(table.prefix(3).map { $0.split(separator: " ").last.map(String.init) }, equals: ["SITES", both, both])
    }

    @Test("routes --diff compares the sessions that a route accepts at each site")
    func difference() throws {
        let before = try ConfigFixture(Self.yaml)
        func changes(_ yaml: String) throws -> CommandReport { try ConfigFixture(yaml).changes(since: before) }
        let widened = try changes(try Self.changed("[company]\n    cookie", "[company, api]\n    cookie"))
        expect(widened.rows, equals: ["requires less GET *.admin.test,admin.test /data data, also sessions of api"])
        expect(widened.exitCode, equals: 3)
        let other = try Self.changed("  admin:\n", "  ops:\n")
        let renamed = try changes(other)
        expect(renamed.rows, equals: ["site changed GET *.admin.test,admin.test /data data, ops, was admin"])
        expect(renamed.exitCode, equals: 0)
        try expect(empty: ConfigFixture(other).load().restartRequirements(since: before.load().configuration))
    }
}
