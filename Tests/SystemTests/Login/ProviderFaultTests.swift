import Foundation
import Glibc
import TestSupport
import Testing

@testable import MockAPI

/// A provider that fails after users have signed in: no session ends because of it, and no other route waits for it.
@Suite("Providers that fail", .serialized, .timeLimit(.minutes(5)))
struct ProviderFaultTests {
    /// The response of a route whose upstream rejects the access token once.
    private func refreshing(_ site: ProviderGateway, _ browser: FormBrowser) async throws -> TestResponse {
        site.mock.faults.failNext("GET", "/__mock/bytes", statuses: [401])
        return try await site.bytes(browser)
    }

    @Test("a provider that was killed continues with its sessions when it is back")
    func killed() async throws {
        var settings = MockProviderSettings()
        settings.port = try FreePort.next()
        let provider = try MockProvider(settings: settings)
        let configuration = ProviderGateway.Settings(issuer: "http://127.0.0.1:\(settings.port)")
        let port = try FreePort.next()
        try await ProviderGateway.running(configuration, port: port) { site in
            // A provider that is away stops no start.
            try await expect(FormBrowser().send("GET", site.base + "/episodes").status, equals: 200)
            let browser = try await provider.whileServing { _ in try await site.signedIn() }
            expect([502, 503].contains(try await refreshing(site, browser).status))
            try await expect(site.session(browser).status, equals: 200)
            try await expect(
                FormBrowser().send("GET", site.base + "/auth/login", FormBrowser.navigation).status, equals: 503)
            try await provider.whileServing { _ in
                try await eventually("the tokens are refreshed") {
                    try await refreshing(site, browser).status == 200
                }
                _ = try await site.signedIn()
            }
        }
    }

    @Test("a reload while the provider is frozen: logins go on, with the documents of before")
    func reload() async throws {
        try await ProviderGateway.withProvider { site, provider in
            try await eventually("the gateway has the documents") {
                try await FormBrowser().send("GET", site.base + "/auth/login", FormBrowser.navigation).status == 303
            }
            provider.script { $0.faults[.discovery] = [.frozen()] }
            site.gateway.program.send(SIGHUP)
            _ = try await site.gateway.program.waits(for: "the reload") { program in
                program.output.contains("config_reload") ? true : nil
            }
            let login = try await FormBrowser().send("GET", site.base + "/auth/login", FormBrowser.navigation)
            expect(login.status, equals: 303, "\(login.body)")
        }
    }
}
