import CloakroomTelemetry
import Foundation
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("Routes that accept a name and a password", .serialized)
struct BasicRouteTests: RouteCredentialsSuite {
    static let tokens = ["am86c2VjcmV0": Company.client, "good": Company.client]
    private static let right = "Authorization: Basic am86c2VjcmV0"
    private static let wrong = "Authorization: Basic am86d3Jvbmc="
    private static let challenge = "…WWW-Authenticate: Basic realm=\"cloakroom\", charset=\"UTF-8\""
    private static let noChallenge = "WWW-Authenticate: Session realm=\"cloakroom\""

    private static let rows = [
        Scenario(
            "Rule 139: a name and a password decide, also with the cookie of another user, and reach no upstream",
            on: setup([.session, .basic]),
            .ok(ask(right), has: ["…Vary: Authorization", "…Vary: Cookie", "Cache-Control: private"]),
            .ok(ask(right, cookie)), .ok(ask(cookie)), .ok(ask("authorization: bASIC am86c2VjcmV0")),
            sent: [ofClient, ofClient, ofSession, ofClient], alsoHTTP2: true),
        Scenario(
            "Rule 139: wrong credentials are 401, also with a cookie, which is neither read nor extended",
            on: setup([.session, .basic]),
            .ask(ask(wrong, cookie), 401, "unauthorized", reason: "invalid_credentials", has: [challenge]),
            .ask(ask("Authorization: Bearer good", cookie), 401, reason: "no_session", has: [challenge]),
            .ask(ask(), 401, reason: "no_session", has: [challenge]), .run { expect($0.sessions.uses, equals: 0) },
            sent: [],
            alsoHTTP2: true),
        Scenario(
            "Rule 139: a route for names and passwords alone reads no cookie, and one without removes the field",
            on: setup(.basic), .ask(ask(cookie), 401, reason: "no_session"), .ok(ask(right, cookie)),
            .ok(Ask.get("/public/a", right)), .run { expect($0.sessions.uses, equals: 0) },
            sent: [ofClient, .init(has: ["Authorization"])]),
        Scenario(
            "Access tokens are accepted too where they are listed", on: setup([.bearer, .basic]),
            .ok(ask("Authorization: Bearer good")), .ok(ask(right)),
            .ask(
                ask("Authorization: Digest a"), 401,
                has: ["…WWW-Authenticate: Bearer realm=\"cloakroom\"", challenge]),
            sent: [ofClient, ofClient]),
        Scenario(
            "Rule 140: basicFromAnotherSiteIsRejected: browsers send it with requests of any site",
            on: setup([.session, .basic]) { $0.changePrivate { $0.allowsWebSocket = true } },
            .each(
                [
                    Ask.post("/private/a", right, "Sec-Fetch-Site: cross-site"),
                    Ask.post("/private/a", right, "Origin: https://evil.test"),
                    Ask.post("/private/a", wrong, "Sec-Fetch-Site: same-site"),
                    Handshake.request("/private/a", right, "Origin: https://evil.test"),
                ], 403, "cross_site"),
            .ok(Ask.post("/private/a", right)), .ok(Ask.post("/private/a", right, "Sec-Fetch-Site: same-origin")),
            sent: [ofClient, ofClient]),
        Scenario(
            "Rule 140: no browser is asked for a password: only requests without its fields get the challenge",
            on: setup(.basic), .ask(ask(), 401, has: [challenge]),
            .all(
                [
                    ask("Sec-Fetch-Mode: navigate"), ask("Sec-Fetch-Mode: cors"), ask("Sec-Fetch-Site: same-origin"),
                    ask("Origin: https://gateway.test"), ask(wrong, "Sec-Fetch-Mode: cors"),
                ], 401, has: [noChallenge])),
        Scenario(
            "Rule 139: several fields, a list, another separator, an empty or a long value are 400",
            on: setup([.session, .basic]),
            .each(
                [
                    ask(right, right), ask(right, wrong, cookie), ask("Authorization: Basic am86, Basic am86"),
                    ask("Authorization: Basic\tam86"), ask("Authorization: Basic  am86"), ask("Authorization: Basic"),
                    ask("Authorization: Basic " + String(repeating: "a", count: 8_193)),
                ], 400, "bad_request"), sent: []),
    ]

    @Test("Names and passwords of a route", arguments: rows)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("Rule 146: noPageSignsIn: a request of another site's page is rejected before the sign-in, also a safe one")
    func otherSites() async throws {
        let tokens = FakeTokens(["am86c2VjcmV0": Company.client])
        let setup = Self.setup([.session, .basic]) { $0.crossSite.trustedOrigins = ["https://shop.test"] }
            .with(\.tokens, tokens)
        let site = "Sec-Fetch-Site: cross-site"
        try await Scenario(
            "of other sites", on: setup,
            .each(
                [
                    Self.ask(Self.wrong, site), Self.ask(Self.right, site, "Sec-Fetch-Mode: navigate"),
                    Self.ask(Self.right, "Sec-Fetch-Site: same-site"),
                    Self.ask(Self.wrong, "Origin: https://evil.test"),
                    Self.ask(Self.right, site, "Origin: https://evil.test"),
                ], 403), sent: []
        ).run()
        expect(empty: tokens.verified)
        try await Scenario(
            "of listed ones, of programs, of the user, of the gateway's pages, and with a cookie", on: setup,
            .ok(Self.ask(Self.right, site, "Origin: https://shop.test")), .ok(Self.ask(Self.right)),
            .ok(Self.ask(Self.right, "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate")),
            .ok(Self.ask(Self.right, "Sec-Fetch-Site: same-origin")), .ok(Self.ask(Self.cookie, site)),
            sent: [Self.ofClient, Self.ofClient, Self.ofClient, Self.ofClient, Self.ofSession]
        ).run()
    }

    @Test("Rule 139: if the upstream rejects the token, the gateway signs in again, and sends the request again once")
    func rejectedUpstream() async throws {
        let reply = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"
        for (second, status) in [(Reply.ok, 200), (reply, 401)] {
            let tokens = FakeTokens(["am86c2VjcmV0": Company.client])
            var setup = Self.setup([.session, .basic]).with(\.tokens, tokens)
            setup.scripts = [[.request, .send(reply)], [.request, .send(second)]]
            try await Scenario(
                "signed in again", on: setup, .ask(Self.ask(Self.right), status), sent: [Self.ofClient, Self.ofClient]
            ).run()
            expect(tokens.verified, equals: ["Basic am86c2VjcmV0", "Basic am86c2VjcmV0"])
        }
    }

    @Test("Rule 139: known credentials are not verified again, and the log has their kind and nothing else of them")
    func logged() async throws {
        let tokens = FakeTokens(["am86c2VjcmV0": Company.client])
        let log = try await Self.setup([.session, .basic]).with(\.tokens, tokens).logged { gateway in
            let client = try await gateway.client()
            for _ in 0..<2 {
                try await expect(client.exchange(Self.ask(Self.right)).status, equals: 200)
            }
            try await expect(client.exchange(Self.ask(Self.wrong)).status, equals: 401)
        }
        expect(tokens.verified, equals: ["Basic am86c2VjcmV0", "Basic am86d3Jvbmc="])
        expect(log.text.components(separatedBy: #""credential":"basic""#).count, equals: 4)
        for secret in ["am86c2VjcmV0", "am86d3Jvbmc", "jo:secret", "jo:wrong"] { expect(!log.text.contains(secret)) }
    }
}
