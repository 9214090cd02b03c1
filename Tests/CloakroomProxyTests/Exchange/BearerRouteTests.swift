import CloakroomTelemetry
import Foundation
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("Routes that accept access tokens", .serialized)
struct BearerRouteTests {
    private static let cookie = FakeSessions.cookie(user.0)
    private static let user = Company.session(token: "of-the-session")
    private static let client = Company.session(token: "of-the-client").1

    private static func setup(
        _ credentials: RouteCredentials, change: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        let setup = GatewaySetup.serving.with(\.tokens, FakeTokens(["good": client])).configuration {
            $0.addCompany()
            $0.changePrivate { $0.credentials = credentials }
            change(&$0)
        }
        setup.sessions.add(user)
        return setup
    }

    private static func ask(_ fields: String...) -> String { Ask.ask("GET", "/private/a", fields) }
    private static let good = "Authorization: Bearer good"
    private static let bad = "Authorization: Bearer bad"
    private static let basic = "Authorization: Basic Zm9v"
    private static let challenge = "…WWW-Authenticate: Bearer realm=\"cloakroom\""
    private static let invalid = "…WWW-Authenticate: Bearer realm=\"cloakroom\", error=\"invalid_token\""
    private static let ofClient = Scenario.Expectation(has: ["Authorization: Bearer of-the-client"])
    private static let ofSession = Scenario.Expectation(has: ["Authorization: Bearer of-the-session"])

    private static let rows = [
        Scenario(
            "Identity rule 39: a token decides, also with the cookie of another user, and is verified once",
            on: setup(.either),
            .ok(ask(good), has: ["…Vary: Authorization", "…Vary: Cookie", "Cache-Control: private"]),
            .ok(ask(good, cookie)), .ok(ask(cookie)), .ok(ask("authorization: BEARER good")),
            sent: [ofClient, ofClient, ofSession, ofClient], alsoHTTP2: true),
        Scenario(
            "Identity rule 39: invalidTokenNeverFallsBack: with a cookie too, which is neither read nor extended",
            on: setup(.either), .ask(ask(bad, cookie), 401, "invalid_token", has: [invalid]),
            .ask(ask(bad), 401, "invalid_token"), .run { #expect($0.sessions.uses == 0) },
            .ask(ask(basic, cookie), 401, "unauthorized", has: [challenge]),
            .ask(ask(), 401, reason: "no_session", has: [challenge]), sent: [], alsoHTTP2: true),
        Scenario(
            "Identity rule 39: `Connection` cannot make the cookie decide", on: setup(.either),
            .ask(ask(bad, "Connection: Authorization", cookie), 401, "invalid_token"), sent: []),
        Scenario(
            "Identity rule 39: a route for tokens alone reads no cookie", on: setup(.bearer),
            .ask(ask(cookie), 401, reason: "no_session", has: [challenge]), .ok(ask(good, cookie)),
            .run { #expect($0.sessions.uses == 0) }, sent: [ofClient]),
        Scenario(
            "Identity rule 39: other routes remove the field, and need a session", on: setup(.session),
            .ask(ask(good), 401, reason: "no_session"), .ok(ask(good, cookie)), .ok(Ask.get("/public/a", good)),
            sent: [ofSession, .init(has: ["Authorization"])]),
        Scenario(
            "Identity rule 39: another site cannot add the field, so that its requests are not cross-site",
            on: setup(.either),
            .ok(Ask.post("/private/a", good, cookie, "Sec-Fetch-Site: cross-site")),
            .ask(Ask.post("/private/a", cookie, "Sec-Fetch-Site: cross-site"), 403, "cross_site")),
        Scenario(
            "Identity rule 39: what browsers add themselves is checked where only the upstream verifies it",
            on: setup(.pass) { $0.changePrivate { $0.allowsWebSocket = true } },
            .each(
                [
                    Ask.post("/private/a", basic, "Sec-Fetch-Site: cross-site"),
                    Ask.post("/private/a", "Authorization: Negotiate Zm9v", "Origin: https://evil.test"),
                    Handshake.request("/private/a", basic, "Origin: https://evil.test"),
                ], 403, "cross_site"),
            .ok(Ask.post("/private/a", basic)), .ok(Ask.post("/private/a", bad, "Sec-Fetch-Site: cross-site")),
            .ok(Ask.post("/private/a", "Authorization: dpop x", "Sec-Fetch-Site: cross-site"))),
        Scenario(
            "Identity rule 43: several fields, a list, another separator, an empty or a long token are 400",
            on: setup(.either),
            .each(
                [
                    ask(good, good), ask(good, bad, cookie), ask("Authorization: Bearer good, Bearer bad"),
                    ask("Authorization: Bearer\tgood"), ask("Authorization: Bearer  good"),
                    ask("Authorization: Bearer"), ask("Authorization:"), ask("Authorization: Bearer go\u{f6}d"),
                    ask("Authorization: Bearer " + String(repeating: "a", count: 8_193)),
                ], 400, "bad_request"),
            .ask(Ask.get("/private/a?access_token=good"), 401, reason: "no_session"),
            .ask(ask("Authorization: Bearer " + String(repeating: "a", count: 8_192)), 401, "invalid_token"), sent: []),
        Scenario(
            "Identity rule 45: the upstream gets the field, and nothing of a session or for sessions",
            on: setup(.pass) {
                $0.upstreams[0].claimHeaders = [ClaimHeader("X-User", claim: "sub")]
            },
            .ok(ask("Authorization: Legacy a, b", cookie, "X-User: admin", "x_user: admin")), .ok(ask(cookie)),
            .ask(ask(), 401, reason: "no_session"), .ask(ask(good, good), 400),
            sent: [
                .init(has: ["Authorization: Legacy a, b", "X-User", "x_user", "Cookie", "X-API-TOKEN"]),
                .init(
                    has: [
                        "Authorization: Bearer of-the-session", "X-User: user-1", "X-API-TOKEN: \(Canary.apiToken)",
                    ]),
            ], alsoHTTP2: true),
        Scenario(
            "A token without the required scope is 403 with the scope; other requirements are those of sessions",
            on: setup(.either) {
                $0.changePrivate {
                    $0.require = SessionRequirement(claims: [RequiredClaim("scope", all: ["a:b", "c"])])
                }
            },
            .ask(
                ask(good), 403, "insufficient_scope",
                has: [#"WWW-Authenticate: Bearer realm="cloakroom", error="insufficient_scope", scope="a:b c""#]),
            .ask(ask(cookie), 403, "missing_claim", has: ["WWW-Authenticate"]), sent: [],
            metrics: [#"cloakroom_bearer_checks_total{identity="company",outcome="scope"} 1"#]),
    ]

    @Test("Credentials of a route", arguments: rows)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("If the upstream rejects the token that was exchanged for that of a client, it is exchanged again")
    func exchangedAgain() async throws {
        let exchanger = FakeExchanger { _ in .active(Secret("Bearer new")) }
        exchanger.cache("old")
        var setup = Self.setup(.bearer) {
            $0.identities[0].tokensFor = []
            $0.identities[0].exchanges = [.init(upstream: 0, audience: "api")]
        }.with(\.exchanger, exchanger)
        setup.scripts = [
            [.request, .send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")],
            [.request, .send(Reply.ok), .again],
        ]
        try await Scenario(
            "exchanged again", on: setup, .ok(Self.ask(Self.good)),
            sent: ["old", "new"].map { .init(has: ["Authorization: Bearer \($0)"]) }
        ).run()
        #expect(exchanger.dropped == ["Bearer old"])
    }

    @Test("Identity rule 40: streams end with a reload after which other access tokens are accepted")
    func reloaded() throws {
        func config(_ credentials: RouteCredentials, _ client: String) throws -> ConfigSnapshot {
            try Self.setup(credentials) {
                var tokens = IdentityConfiguration.AccessTokens()
                tokens.clients = [client]
                $0.identities[0].accessTokens = tokens
            }.makeConfig()
        }
        for credentials in [RouteCredentials.bearer, .either, .session] {
            let old = try config(credentials, "a")
            for client in ["a", "b"] {
                let isKept = try config(credentials, client).containsEquivalent(
                    old.routes[2], of: old, for: Company.identity.source)
                #expect(isKept == (client == "a" || credentials == .session))
            }
        }
    }

    @Test("Identity rule 44: requests with a known token are not verified again, and the access log has the credential")
    func verifiedOnce() async throws {
        let tokens = FakeTokens(["good": Self.client])
        let log = try await Self.setup(.either).with(\.tokens, tokens).logged { gateway in
            let client = try await gateway.client()
            for fields in [[Self.good], [Self.good], [Self.cookie]] {
                #expect(try await client.exchange(Ask.ask("GET", "/private/a", fields)).status == 200)
            }
        }
        #expect(tokens.verified == ["Bearer good"])
        #expect(log.text.components(separatedBy: #""credential":"bearer""#).count == 3)
        #expect(!log.text.contains("good"))
    }
}
