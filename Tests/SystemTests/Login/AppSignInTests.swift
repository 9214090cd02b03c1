import Foundation
import TestSupport
import Testing
import ThinClient

@testable import MockAPI

@Suite("A native app whose users sign in at a provider", .serialized, .timeLimit(.minutes(3)))
struct AppSignInTests {
    @Test("Identity rule 33: noTicketInAnyURL: the client library signs in, keeps the session and is refreshed")
    func signsIn() async throws {
        let app = "accounts.apps.cli."
        let settings = [app + "redirect=http://127.0.0.1/in", app + "idleTimeout=20d", app + "absoluteTimeout=30d"]
        try await ProviderGateway.withProvider(change: { $0.overrides += settings }) { site, provider in
            // The documents of the provider are fetched in the background.
            _ = try await site.beginLogin(FormBrowser())
            let client = GatewayClient(gateway: try require(URL(string: site.base)))
            let url = try await client.beginSignIn(app: "cli", port: 1)
            let browser = FormBrowser()
            let page = try await browser.visit(url.absoluteString).response?.body
            let link = try require(page?.firstMatch(of: /href="(http:\/\/127.0.0.1:1\/in\?code=([\w\-]+))"/))
            let (callback, code) = (try require(URL(string: String(link.1))), String(link.2))
            // Another client has the code, and no verifier.
            let thief = try await FormBrowser().send(
                "POST", site.base + "/auth/app/code", json: #"{"code":"\#(code)"}"#)
            expect(thief.status == 400 && thief.problem?.code == "login_expired")

            let signedIn = try await client.completeSignIn(callback, as: ProviderUser.self)
            try await expect(client.currentSession(as: ProviderUser.self), equals: signedIn)
            expect(signedIn.session.idleTimeout, equals: .seconds(20 * 86_400))
            try await expect(site.session(browser).status, equals: 401)
            let query = [URLQueryItem(name: "count", value: "3")]
            try await expect(client.data("GET", "/__mock/bytes", query: query).count, equals: 3)
            site.mock.faults.failNext("GET", "/__mock/bytes", statuses: [401])
            try await expect(client.data("GET", "/__mock/bytes", query: query).count, equals: 3)
            expect(provider.observations.snapshot().count("POST", "/token"), equals: 2)
            let list = String(decoding: try await client.data("GET", "/auth/sessions"), as: UTF8.self)
            expect(list.contains(#","bound":false,"app":"cli"}]}"#), "\(list)")
            let again = await clientError { try await client.completeSignIn(callback, as: ProviderUser.self) }
            expect(again?.code, equals: .loginExpired)
            try await client.signOut()
            let parts = [#""event":"login""#, #""logger":"access""#, #""event":"sign_out""#]
            _ = try await eventually("the sign-in, the requests and the sign-out are logged with the app") {
                let lines = site.gateway.program.output.split(separator: "\n").filter { $0.contains(#""app":"cli""#) }
                return parts.allSatisfy { part in lines.contains { $0.contains(part) } } ? true : nil
            }

            let log = site.gateway.program.output + site.gateway.program.errors
            for secret in provider.issuedSecrets where secret.utf8.count > 20 {
                expect(!url.absoluteString.contains(secret) && !link.1.contains(secret) && !log.contains(secret))
            }
            expect(!log.contains(code))
        }
    }
}
