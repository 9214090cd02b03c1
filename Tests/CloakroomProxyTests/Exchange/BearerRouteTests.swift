import CloakroomTelemetry
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("Routes that accept access tokens", .serialized)
struct BearerRouteTests: RouteCredentialsSuite {
    /// The session of a token that is bound to a key.
    private static let bound = Company.session(token: "of-the-key").1.refreshed(
        with: SessionUpdate(
            device: DeviceBinding(key: Array(repeating: 1, count: 32), boundAt: WallTime(seconds: 1_800_000_000))))

    static let tokens = ["good": Company.client, "bound": bound]
    private static let good = "Authorization: Bearer good"
    private static let bad = "Authorization: Bearer bad"
    private static let basic = "Authorization: Basic Zm9v"
    private static let challenge = "…WWW-Authenticate: Bearer realm=\"cloakroom\""
    private static let dpop = ["Authorization: DPoP bound", "DPoP: proof"]
    private static let ofDPoP = "WWW-Authenticate: DPoP realm=\"cloakroom\""
    private static let algorithms = ", algs=\"ES256 EdDSA RS256\""
    private static let invalid = "…WWW-Authenticate: Bearer realm=\"cloakroom\", error=\"invalid_token\""

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
            .ask(ask(bad), 401, "invalid_token"), .run { expect($0.sessions.uses, equals: 0) },
            .ask(ask(basic, cookie), 401, "unauthorized", has: [challenge]),
            .ask(ask(), 401, reason: "no_session", has: [challenge]), sent: [], alsoHTTP2: true),
        Scenario(
            "Identity rule 39: `Connection` cannot make the cookie decide", on: setup(.either),
            .ask(ask(bad, "Connection: Authorization", cookie), 401, "invalid_token"), sent: []),
        Scenario(
            "Identity rule 39: a route for tokens alone reads no cookie", on: setup(.bearer),
            .ask(ask(cookie), 401, reason: "no_session", has: [challenge]), .ok(ask(good, cookie)),
            .run { expect($0.sessions.uses, equals: 0) }, sent: [ofClient]),
        Scenario(
            "Identity rule 39: the token that a connection sent last decides about no other field, route or session",
            on: setup(.either), .ok(ask(good)), .ok(ask(good)), .ok(ask(good)),
            .each(
                ["goo", "goox", "good2"].map { ask("Authorization: Bearer \($0)") }, 401, "invalid_token"),
            .each([ask(good, good), ask("Authorization: Bearer  good")], 400, "bad_request"),
            .ok(Ask.get("/public/a", good)), .ok(ask(cookie)), .ok(ask(good)),
            sent: [ofClient, ofClient, ofClient, .init(has: ["Authorization"]), ofSession, ofClient], alsoHTTP2: true),
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
            "Identity rule 48: neither a token that is bound to a key nor its proof is sent, also with another's cookie",
            on: setup(.either), .ok(ask(dpop[0], dpop[1], cookie), has: ["…Vary: Authorization"]),
            .ok(ask("authorization: dPoP bound", "d: e", dpop[1])),
            sent: [.init(has: ["Authorization", "DPoP", "Cookie"]), .init(has: ["Authorization", "DPoP", "d: e"])],
            alsoHTTP2: true),
        Scenario(
            "Identity rule 48: it is removed from each request but those whose field only the upstream verifies",
            on: setup(.pass), .ok(ask(dpop[0], dpop[1], "dpop-nonce: a")), .ok(Ask.get("/public/a", dpop[1])),
            sent: [.init(has: dpop + ["dpop-nonce: a"]), .init(has: ["DPoP"])]),
        Scenario(
            "Identity rule 46: the challenges of a route, and those after a proof that needs a nonce",
            on: setup(.either),
            .ask(ask(), 401, "unauthorized", has: [challenge, "…\(ofDPoP)\(algorithms)", "DPoP-Nonce: a-nonce"]),
            .ask(
                ask(dpop[0], "DPoP: stale", cookie), 401, "use_dpop_nonce",
                has: [challenge, "…\(ofDPoP), error=\"use_dpop_nonce\"\(algorithms)", "DPoP-Nonce: a-nonce"]),
            .ask(
                ask("Authorization: DPoP bad", dpop[1]), 401, "invalid_token",
                has: [
                    challenge, "…\(ofDPoP), error=\"invalid_token\"\(algorithms)",
                ]),
            .ask(ask(bad), 401, "invalid_token", has: [invalid, "…\(ofDPoP)\(algorithms)"]),
            .run { expect($0.sessions.uses, equals: 0) }, sent: []),
        Scenario(
            "Identity rule 46: the form of the token is that of other tokens",
            on: setup(.either),
            .each(
                [
                    ask(dpop[0], good), ask("Authorization: DPoP", dpop[1]), ask("Authorization: DPoP\tbound"),
                    ask("Authorization: DPoP bo, und"),
                    ask("Authorization: DPoP " + String(repeating: "a", count: 8_193)),
                ], 400, "bad_request"),
            .ask(ask("Authorization: DPoP " + String(repeating: "a", count: 8_192)), 401, "invalid_token"), sent: []),
        Scenario(
            "A token that is bound to a key meets `require.device`, and another one does not",
            on: setup(.either) { $0.changePrivate { $0.require = SessionRequirement(device: true) } },
            .ok(ask(dpop[0], dpop[1])), .ask(ask(good), 403, "device_required")),
        Scenario(
            "Pages of other origins may send a proof, and read the nonce",
            on: setup(.either) { $0.crossSite.corsOrigins = ["https://app.test"] },
            .ask(
                Ask.ask(
                    "OPTIONS", "/private/a",
                    [
                        "Origin: https://app.test", "Access-Control-Request-Method: GET",
                        "Access-Control-Request-Headers: authorization, dpop",
                    ]), 204, has: ["Access-Control-Allow-Headers: authorization, dpop"]),
            .ask(
                ask("Authorization: DPoP bound", "DPoP: stale", "Origin: https://app.test"), 401, "use_dpop_nonce",
                has: ["Access-Control-Expose-Headers: WWW-Authenticate, DPoP-Nonce"]), sent: []),
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

    @Test("Identity rule 46: a proof is that of the request: its only field, method and path; the credential is logged")
    func presented() async throws {
        let tokens = FakeTokens(["bound": Self.bound])
        let log = try await Self.setup(.either).with(\.tokens, tokens).logged { gateway in
            let client = try await gateway.client()
            let long = "DPoP: " + String(repeating: "a", count: 4_097)
            for fields in [[], [Self.dpop[1]], ["dpop: a"], [Self.dpop[1], "DPoP: b"], [long]] {
                let request = Ask.ask(
                    "GET", "/private/%61?b=c", [Self.dpop[0], "X-Forwarded-Host: evil.test"] + fields)
                try await expect(client.exchange(request).status, equals: 200)
            }
        }
        let texts = tokens.presented.map { $0?.text.map { String(decoding: $0, as: UTF8.self) } }
        expect(texts, equals: [nil, "proof", "a", nil, nil])
        expect(tokens.presented.allSatisfy { $0?.method == Array("GET".utf8) && $0?.path == Array("/private/a".utf8) })
        expect(log.text.components(separatedBy: #""credential":"dpop""#).count, equals: 6)
    }

    @Test("Identity rule 48: an upstream gets the token that was exchanged for one that is bound to a key")
    func exchangedForBound() async throws {
        let exchanger = FakeExchanger()
        let setup = Self.setup(.bearer) {
            $0.identities[0].tokensFor = []
            $0.identities[0].exchanges = [.init(upstream: 0, audience: "api")]
        }.with(\.exchanger, exchanger)
        try await Scenario(
            "exchanged", on: setup, .ok(Ask.ask("GET", "/private/a", Self.dpop)),
            sent: [.init(has: ["Authorization: Bearer exchanged", "DPoP"])]
        ).run()
        expect(exchanger.calls.count, equals: 1)
    }

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
        expect(exchanger.dropped, equals: ["Bearer old"])
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
                expect(isKept, equals: client == "a" || credentials == .session)
            }
        }
    }

    @Test("Identity rule 44: requests with a known token are not verified again, and the access log has the credential")
    func verifiedOnce() async throws {
        let tokens = FakeTokens(["good": Company.client])
        let log = try await Self.setup(.either).with(\.tokens, tokens).logged { gateway in
            let client = try await gateway.client()
            for fields in [[Self.good], [Self.good], [Self.cookie]] {
                try await expect(client.exchange(Ask.ask("GET", "/private/a", fields)).status, equals: 200)
            }
        }
        expect(tokens.verified, equals: ["Bearer good"])
        expect(log.text.components(separatedBy: #""credential":"bearer""#).count, equals: 3)
        expect(!log.text.contains("good"))
    }

    @Test("Identity rule 44: after too many rejected tokens an unknown one is 429 without a verification")
    func limited() async throws {
        let tokens = FakeTokens(Self.tokens)
        try await Self.setup([.session, .bearer, .basic]).with(\.tokens, tokens).run { gateway in
            let client = try await gateway.client()
            func status(_ fields: String...) async throws -> Int {
                try await client.exchange(Ask.ask("GET", "/private/a", fields)).status
            }
            try await expect(status(Self.good), equals: 200)
            try await expect(status(Self.dpop[0], Self.dpop[1]), equals: 200)
            tokens.isLimited.store(true, ordering: .relaxed)
            for _ in 0..<3 {
                try await expect(status(Self.bad), equals: 429)
                try await expect(status("Authorization: DPoP other", Self.dpop[1]), equals: 429)
            }
            try await expect(status(Self.good), equals: 200)
            try await expect(status(Self.cookie), equals: 200)
            expect(tokens.verified, equals: ["Bearer good", "Bearer bound"])
            // Of a known token the proofs are limited. Sign-ins have a throttle.
            try await expect(status(Self.dpop[0], Self.dpop[1]), equals: 200)
            try await expect(status(Self.basic), equals: 401)
            expect(tokens.verified, equals: ["Bearer good", "Bearer bound", "Bearer bound", "Basic Zm9v"])
        }
    }
}
