import CloakroomCore
import Foundation
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Responses that reflect injected values", .serialized)
struct ReflectionTests {
    /// A route that uses a session but does not require one.
    private static func optional(_ fields: String) -> GatewaySetup {
        .replying("HTTP/1.1 200 OK\r\n\(fields)Content-Length: 2\r\n\r\nok").configuration {
            $0.routes[2].requiresAuthorization = false
        }
    }

    private static let varying: [(fields: String, expected: [String])] = [
        ("", ["Vary: Cookie"]), ("Vary: Accept-Encoding\r\n", ["Vary: Accept-Encoding", "Vary: Cookie"]),
        ("Vary: accept, COOKIE\r\n", ["Vary: accept, COOKIE"]), ("Vary: *\r\n", ["Vary: *"]),
    ]

    private static let vary = varying.map { fields, expected in
        Scenario(
            "Rule 30: on a route with an optional session, responses without a session also vary by the cookie",
            on: optional(fields), .ok(Ask.get("/private/a"), has: expected + ["Cache-Control"]),
            .ok(Ask.get("/private/a", Ask.cookie), has: expected + ["Cache-Control: private"]))
    }

    private static let rows = [
        Scenario(
            "Rule 30: a public response varies by the cookie, and stays public",
            on: optional("Cache-Control: public\r\n"),
            .all(
                [Ask.get("/private/a"), Ask.get("/private/a", Ask.cookie)], 200,
                has: ["Vary: Cookie", "Cache-Control: public"])),
        Scenario(
            "Rule 30: a response on a route that requires a session but injects no token is private as well",
            on: .serving.configuration { $0.routes[2].inject = [] },
            .ok(Ask.get("/private/a", Ask.cookie), has: ["Cache-Control: private", "Vary: Cookie"])),
        Scenario(
            "Rule 44: a reason phrase with an injected value does not arrive",
            on: .replying("HTTP/1.1 200 Fine \(Canary.accessToken)\r\nContent-Length: 2\r\n\r\nok"),
            .ask(Ask.get("/private/a", Ask.cookie), line: "HTTP/1.1 200 ")),
        Scenario(
            "Rule 44: the upstream's API token is also removed on routes that do not inject it",
            on: .replying("HTTP/1.1 200 OK\r\nX-Debug: \(Canary.apiToken)\r\nContent-Length: 2\r\n\r\nok"),
            .ok(has: ["X-Debug"])),
        Scenario(
            "Rules 34 and 44: an upstream in tokensFor gets the token, and its responses do not contain it",
            on: .replying("HTTP/1.1 200 OK\r\nX-Debug: \(Canary.accessToken)\r\nContent-Length: 2\r\n\r\nok")
                .configuration {
                    $0.upstreams.append(UpstreamConfiguration(name: "orders", targets: $0.upstreams[0].targets))
                    $0.accounts.tokensFor = [1]
                    $0.routes[2].action = .forward(upstream: 1, nil)
                },
            .ok(Ask.get("/private/a", Ask.cookie), has: ["X-Debug"]),
            sent: [.init(has: ["Authorization: Bearer \(Canary.accessToken)"])]),
    ]

    @Test("Fields of responses", arguments: vary + rows)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("Date is the time of the response, not that of the request (RFC 9110 §6.6.1)")
    func date() async throws {
        let gate = Gate()
        let before = Int64(Date().timeIntervalSince1970) + 25
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok)]).steppedTime().run { gateway in
            // The time of the gateway began with it, and advances only here.
            let after = Int64(Date().timeIntervalSince1970) + 25
            let client = try await gateway.client(sending: Ask.get())
            _ = try await gateway.upstream.request()
            try await gateway.advance(.seconds(25))
            gate.open()
            let response = try await client.response()
            let dates = (before...after).map { String(decoding: HTTPDate.render(secondsSinceEpoch: $0), as: UTF8.self) }
            expect(dates.contains(response["Date"] ?? ""))
        }
    }
}
