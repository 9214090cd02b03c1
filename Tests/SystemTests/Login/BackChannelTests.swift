import Foundation
import Glibc
import TestSupport
import Testing

@testable import MockAPI

/// Logout tokens as any client can send them, observed from outside (OpenID Connect Back-Channel Logout §2.6).
@Suite("Back-channel logout", .serialized, .timeLimit(.minutes(5)))
struct BackChannelTests {
    /// Two gateways that share a store, with a WebSocket server behind both.
    private func replicas(
        body: (_ first: ProviderGateway, _ second: ProviderGateway, MockProvider, PythonWebSockets) async throws
            -> Void
    ) async throws {
        let python = try await PythonWebSockets()
        let ports = [try FreePort.next(), try FreePort.next()]
        try await SessionStoreFixture.with(.valkey) { store in
            try await MockProvider.withServer { provider in
                try await python.serving(before: provider.issuer) { chat in
                    var settings = ProviderGateway.Settings(issuer: provider.issuer)
                    settings.chat = chat
                    settings.overrides = ["accounts.throttle=false"] + store.settings()
                    let shared = settings
                    try await ProviderGateway.running(shared, port: ports[0]) { first in
                        try await ProviderGateway.running(shared, port: ports[1]) { second in
                            try await body(first, second, provider, python)
                        }
                    }
                }
            }
        }
    }

    private func post(_ site: ProviderGateway, _ body: String) async throws -> TestResponse {
        let response = try await FormBrowser().send(
            "POST", site.base + "/auth/backchannel", [("Content-Type", "application/x-www-form-urlencoded")], body: body
        )
        expect(empty: response.values(of: "Set-Cookie"))
        expect(response.values(of: "Cache-Control").contains { $0.contains("no-store") }, "\(body.prefix(40))")
        return response
    }

    @Test(
        "Identity rule 20: logoutReachesAllReplicas: a token that one gateway receives closes the WebSockets at another"
    )
    func logoutReachesAllReplicas() async throws {
        try await replicas { first, second, provider, python in
            var fastest = Duration.seconds(60)
            // 0.2 s are the goal, which Benchmarks/endurance.py measures. A busy machine delays some of them.
            for number in 0..<15 where fastest > .milliseconds(600) {
                provider.script { $0.subject = "user-\(number)" }
                let cookie = try await first.signedIn().cookies(of: first.base)[WebClient.cookieName]
                let login = try require(provider.logins.last)
                let token =
                    number.isMultiple(of: 2)
                    ? try provider.logoutToken(sessionID: login.sessionID)
                    : try provider.logoutToken(subject: login.subject)
                try await python.connecting(to: second.base + "/chat", .listen, cookie: cookie) { client in
                    _ = try await client.waits(for: "the connection") { $0.lines.isEmpty ? nil : true }
                    let start = ContinuousClock.now
                    try await expect(post(first, "logout_token=\(token)").status, equals: 200)
                    let end = try await client.waits(for: "the close") { $0.lines.count > 1 ? $0.lines.last : nil }
                    fastest = min(fastest, ContinuousClock.now - start)
                    expect(end, equals: "closed 1008")
                }
                let elsewhere = FormBrowser(cookies: [second.base: [WebClient.cookieName: cookie ?? ""]])
                try await expect(second.session(elsewhere).status, equals: 401)
            }
            #expect(fastest < .milliseconds(600))
        }
    }
}
