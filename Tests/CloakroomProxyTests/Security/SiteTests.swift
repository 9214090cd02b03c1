import CloakroomCore
import TestSupport
import Testing

/// Hosts with sessions of their own: `admin.test` and those below it are the site `admin`, all others the default one.
@Suite("Sites", .serialized)
struct SiteTests {
    private static let tag = SiteTag("admin")
    private static let made = FakeSessions.make()
    /// The cookie of a session of the site `admin`. `Ask.cookie` is that of one of the default site.
    private static let cookie = FakeSessions.cookie(made.0)

    private static func setup(_ endpoints: FakeEndpoints = FakeEndpoints()) -> GatewaySetup {
        let sessions = FakeSessions()
        var ticket = made.0
        ticket.site = tag
        sessions.add((ticket, made.1))
        return GatewaySetup.serving.with(\.sessions, sessions).with(\.endpoints, endpoints).configuration {
            var admin = SiteConfiguration(name: "admin")
            admin.hosts = ["admin.test", "*.admin.test"]
            admin.upstream = 0
            $0.sites = [SiteConfiguration($0.accounts), admin]
        }
    }

    private static func get(_ host: String, _ path: String = "/private/a", _ fields: String...) -> String {
        (["GET \(path) HTTP/1.1", "Host: \(host)"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
    }

    /// Users sign in at `admin` with a provider only, and at the default site also with a password.
    private static func restrict(_ configuration: inout GatewayConfiguration) {
        configuration.addCompany()
        configuration.changePrivate { $0.onMissingSession = .login }
        configuration.sites[0] = SiteConfiguration(configuration.accounts)
        (configuration.sites[1].identities, configuration.sites[1].upstream) = ([.provider(0)], nil)
        configuration.sites[1].publicURL = "https://admin.test"
    }

    private static let adminHosts = ["admin.test", "ADMIN.test.", "admin.test:443", "x.admin.test"]
    private static let otherHosts = ["gateway.test", "test", "a.b.admin.test", "admin.test.evil", "127.0.0.1"]
    private static let navigation = ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"]

    private static let scenarios = [
        Scenario(
            "Rule 104: a ticket is valid at the hosts of its site, in every spelling, and unknown at all others",
            on: setup(),
            .all(adminHosts.map { get($0, "/private/a", cookie) }, 200),
            .all(otherHosts.map { get($0, "/private/a", cookie) }, 401, reason: "no_session"),
            .all(otherHosts.map { get($0, "/private/a", Ask.cookie) }, 200),
            .all(adminHosts.map { get($0, "/private/a", Ask.cookie) }, 401, reason: "no_session"),
            .all([get("admin.test", "/private/a", cookie), get("gateway.test", "/private/a", Ask.cookie)], 200),
            alsoHTTP2: true),
        Scenario(
            "Rule 104: an absolute target decides about the site, and forwarding fields do not",
            on: setup().configuration { $0.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap(\.self) },
            .each(
                [
                    get("gateway.test", "/private/a", "X-Forwarded-Host: admin.test", cookie),
                    get("gateway.test", "/private/a", "Forwarded: host=admin.test", cookie),
                    get("admin.test", "http://gateway.test/private/a", cookie),
                ], 401, reason: "no_session"),
            .each([get("gateway.test", "http://admin.test/private/a", cookie)], 200), sent: [.init()]),
        Scenario(
            "Rule 104: the gateway's own endpoints get the site of the host, and all tickets as those of the site",
            on: setup(
                FakeEndpoints { request in
                    let tickets = request.endingTickets.map { "\($0.site == tag)" }.joined(separator: ",")
                    let own = "\(request.site) \(request.ticket?.site == tag) \(tickets)"
                    return AccountResponse(status: 200, content: .json(Array(own.utf8)))
                }),
            .ask(get("admin.test", "/auth", cookie), 200, text: "1 true true"),
            .ask(get("gateway.test", "/auth", cookie), 200, text: "0 false false"),
            .ask(
                get("admin.test", "/auth", "\(cookie); \(Ask.cookieValue)"), 200, text: "1 false true,true"),
            sent: [], alsoHTTP2: true),
        Scenario(
            "Rule 105: a session of a source that its site does not have is not valid there", on: setup(),
            .ok(get("admin.test", "/private/a", cookie)), .replace { restrict(&$0) },
            .ask(get("admin.test", "/private/a", cookie), 401, reason: "revoked"),
            .ok(get("gateway.test", "/private/a", Ask.cookie)), sent: [.init(), .init()], alsoHTTP2: true),
        Scenario(
            "Browsers without a session are sent to what users of the site sign in with", on: setup(),
            .replace { restrict(&$0) },
            .ask(
                get("admin.test", "/private/a", navigation[0], navigation[1]), 303,
                has: ["Location: /auth/login?…"]),
            .ask(
                get("gateway.test", "/private/a", navigation[0], navigation[1]), 303,
                has: ["Location: /auth/page?…"]), sent: []),
        Scenario(
            "The placeholder {site} is the name of the site; at the default one the field is not sent",
            on: setup().configuration { $0.routes[0].requestFields = [FieldChange(.set, "X-Site", "at {site}")] },
            .ok(get("admin.test", "/public/a")), .ok(get("gateway.test", "/public/a", "X-Site: at admin")),
            sent: [.init(has: ["X-Site: at admin"]), .init(has: ["X-Site"])]),
        Scenario(
            "A host can move to another site while a connection is open: its sessions are then unknown", on: setup(),
            .ok(get("admin.test", "/private/a", cookie)), .replace { $0.sites = [] },
            .ask(get("admin.test", "/private/a", cookie), 401, reason: "no_session"),
            .ok(get("admin.test", "/private/a", Ask.cookie)), sent: [.init(), .init()], alsoHTTP2: true),
    ]

    @Test("Sites", arguments: scenarios)
    func sites(_ scenario: Scenario) async throws { try await scenario.run() }
}
