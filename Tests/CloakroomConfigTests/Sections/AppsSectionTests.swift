import CloakroomConfig
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("accounts.apps")
struct AppsSectionTests {
    private static let yaml = """
        \(ConfigFixture.proxied)
        \(ConfigFixture.company)
          partner:
            issuer: https://partner.example
            client: { id: cloakroom, secret: 0123456789-abc }
        accounts:
          publicURL: https://app.example.com
          login: { returnTo: /open }
          apps:
            shop: { redirect: "com.example.shop:/in", label: Shop, identities: [partner] }
            web: { redirect: "https://app.example.com/app/in", confirm: true }
            cli: { redirect: "http://127.0.0.1/in" }
        routes:
          - name: open
            methods: [GET]
            path: /open
            upstream: api
            requiresAuthorization: false

        """

    private static func changed(_ piece: String, _ other: String) throws -> String {
        try ConfigFixture.changed(yaml, piece, other)
    }

    @Test("An app has a redirect, a label and identities, and belongs to the default site")
    func values() throws {
        let configuration = try ConfigFixture(Self.yaml).load().configuration
        let apps = configuration.accounts.apps
        expect(apps.map(\.name), equals: ["shop", "web", "cli"])
        expect(apps.map(\.label) == ["Shop", nil, nil] && apps.map(\.confirm) == [false, true, false])
        expect(apps.map(\.identities), equals: [["partner"], [], []])
        expect(apps.map(\.hasCustomScheme) == [true, false, false] && apps.map(\.isLoopback) == [false, false, true])
        let site = "sites: { admin: { hosts: [a.test], publicURL: \"https://a.test\" } }\nroutes:"
        let sites = try ConfigFixture(Self.changed("routes:", site)).load().configuration
        expect(sites.sites.indices.map { sites.site($0).accounts.apps.count }, equals: [3, 0])
    }

    @Test("explain names the apps whose sessions may use a route, and whether these are bound; none without a session")
    func explained() throws {
        let access = "requiresAuthorization: true, inject: [bearer]"
        let route = "routes:\n  - { name: own, methods: [GET], path: /own, upstream: api, \(access) }"
        let yaml = Self.bound.replacing("routes:", with: route).replacing(
            "issuer: https://id.example.com", with: "issuer: https://id.example.com\n    tokensFor: [api]")
        func apps(_ path: String, _ yaml: String) throws -> [String] {
            try ConfigFixture(yaml).report { CommandReport.explain($0, method: "GET", target: path) }.rows
                .filter { $0.hasPrefix("apps:") }
        }
        // The upstream does not get the tokens of the only identity of the first one.
        try expect(apps("/own", yaml), equals: ["apps: web (bound: off), cli (bound: off)"])
        let all = "apps: shop (bound: required), web (bound: off), cli (bound: off)"
        try expect(apps("/own", yaml.replacing(", inject: [bearer]", with: "")), equals: [all])
        try expect(empty: apps("/open", yaml))
    }

    @Test(
        "Identity rule 36: a redirect that another page or machine could get, and other mistakes, are rejected",
        arguments: [
            ("com.example.shop:/in", "shop:/in", "apps.shop.redirect: must have a scheme"),
            ("com.example.shop:/in", "javascript:/in", "must have a scheme of lower-case letters with a dot"),
            ("com.example.shop:/in", "com.example.shop:in", "must be a URL with a path, without query and fragment"),
            ("com.example.shop:/in", "com.example.shop:/in?a=b", "without query and fragment"),
            ("com.example.shop:/in", "com.example.shop:/in#a", "without query and fragment"),
            ("https://app.example.com/app/in", "https://app.example.com", "must be a URL with a path"),
            ("https://app.example.com/app/in", "https://jo@app.example.com/in", "must be a URL with a path"),
            ("http://127.0.0.1/in", "http://app.example.com/in", "cli.redirect: must be an https URL"),
            ("http://127.0.0.1/in", "http://localhost/in", "not localhost, which may be another machine"),
            ("http://127.0.0.1/in", "http://127.0.0.1:80/in", "without a port, which each login names"),
            ("[partner]", "[parner]", "unknown identity \"parner\" (did you mean \"partner\"?)"),
            ("[partner]", "[partner, partner]", "must be a list without duplicates"),
            ("label: Shop", "lable: Shop", "unknown key"),
            ("redirect: \"com.example.shop:/in\", ", "", "apps.shop.redirect: required key missing"),
        ])
    func mistakes(piece: String, other: String, message: String) throws {
        try ConfigFixture.expectError(message, in: Self.yaml, replacing: piece, by: other)
    }

    private static let bound =
        yaml.replacing("label: Shop", with: "idleTimeout: 40d, absoluteTimeout: 180d, device: required")
        .replacing(
            "routes:", with: "session: { store: sqlite, secrets: [\(secret)], sqlite: { path: /tmp/a } }\nroutes:")
    private static let secret = String(repeating: "0123456789abcdef", count: 2)

    @Test("Its timeouts and the mode of its device apply to its sessions, and a change of them requires a restart")
    func terms() throws {
        let configuration = try ConfigFixture(Self.bound).load().configuration
        let (session, apps) = (configuration.session, configuration.accounts.apps)
        let expected = SessionTerms(idle: .seconds(40 * 86_400), absolute: .seconds(180 * 86_400), device: .required)
        expect(session.apps == [expected] && session.device.isUsedByApps && session.device.mode == .off)
        expect(apps.map { $0.terms(session) }, equals: [expected, nil, nil])
        let partly = try ConfigFixture(Self.changed("label: Shop", "idleTimeout: 1h")).load().configuration
        expect(
            partly.session.apps, equals: [SessionTerms(idle: .seconds(3_600), absolute: .seconds(28_800), device: .off)]
        )
        expect(!partly.session.device.isUsed)
        let changed = Self.bound.replacing("40d", with: "41d").replacing("confirm: true", with: "device: auto")
        let next = try ConfigFixture(changed).load()
        expect(
            next.restartRequirements(since: configuration).map(\.key),
            equals: [
                "accounts.apps.shop.idleTimeout", "accounts.apps.web.device",
            ])
        let removed = Self.bound.replacing(#/ +shop: .*\n/#, with: "").replacing("confirm: true", with: "label: Web")
        try expect(empty: ConfigFixture(removed).load().restartRequirements(since: configuration))
    }

    @Test(
        "Rule 138: above 30 days, a session needs the key of its device, and a store that outlives the process",
        arguments: [
            ("40d, absoluteTimeout", "200d, absoluteTimeout", "idleTimeout 200d must be at most absoluteTimeout 180d"),
            (", absoluteTimeout: 180d", "", "idleTimeout 40d must be at most absoluteTimeout 8h"),
            ("180d", "401d", "absoluteTimeout: must be in the allowed range"),
            ("40d", "0s", "idleTimeout: must be in the allowed range"),
            (", device: required", "", "absoluteTimeout: requires device: required above 30d"),
            ("device: required", "device: auto", "absoluteTimeout: requires device: required above 30d"),
            ("store: sqlite", "store: memory", "absoluteTimeout: requires a store outside the process above 30d"),
            ("device: required", "device: always", "apps.shop.device: must be"),
        ])
    func longSessions(piece: String, other: String, message: String) throws {
        try ConfigFixture.expectError(message, in: Self.bound, replacing: piece, by: other)
    }

    @Test("Apps need an identity, and there are at most 16")
    func limits() throws {
        let app = "apps: { shop: { redirect: \"com.example.shop:/in\" } }"
        let errors = try ConfigFixture(ConfigFixture.good + "accounts: { \(app) }\n").valueErrors()
        expect(
            errors.contains { $0.contains("requires an identity: users of apps sign in with a browser") }, "\(errors)")
        let many = (0..<17).map { "    a\($0): { redirect: \"com.example.a:/\" }\n" }.joined()
        let tooMany = try ConfigFixture(Self.changed("  apps:\n", "  apps:\n" + many)).valueErrors()
        expect(tooMany.contains { $0.contains("must be at most 16 apps, not 20") }, "\(tooMany)")
    }

    @Test("A scheme that another app may claim, and a redirect that a route forwards, are warned about")
    func warnings() throws {
        func warnings(_ yaml: String) throws -> [String] { try ConfigFixture(yaml).load().warnings.map(\.description) }
        let usual = try warnings(Self.yaml)
        expect(
            usual.filter { $0.contains("accounts.apps.") }.map { $0.contains("may claim this scheme") }, equals: [true])
        let forwarded = try warnings(Self.changed("/app/in", "/open"))
        expect(forwarded.contains { $0.contains("accounts.apps.web.redirect: route open forwards this path") })
    }
}
