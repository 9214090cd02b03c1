import TestSupport
import Testing

@testable import MockAPI
@testable import cloakroom_demo

/// A provider whose issuer no name server knows (RFC 6761 §6.4), at an address with a certificate of its own authority.
@Suite("A provider under another address than its issuer", .serialized, .timeLimit(.minutes(3)))
struct SplitHorizonTests {
    private static let issuer = "https://id.cloakroom.invalid"

    /// The metadata with the names that they have inside.
    private static func metadata(at base: String) -> MemberEdit {
        let paths = [
            "authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/jwks",
            "userinfo_endpoint": "/userinfo", "revocation_endpoint": "/revoke",
            "end_session_endpoint": "/end_session", "pushed_authorization_request_endpoint": "/par",
        ]
        return MemberEdit(set: paths.mapValues { "\"\(base)\($0)\"" })
    }

    @Test(
        "Identity rule 31: splitHorizonSignsIn: users sign in, refresh and sign out, whichever URLs the metadata name",
        arguments: [true, false])
    func splitHorizonSignsIn(namesBase: Bool) async throws {
        let certificate = try DemoCertificate()
        defer { certificate.remove() }
        var settings = MockProviderSettings()
        settings.issuer = Self.issuer
        try await MockProvider.withServer(settings) { provider in
            try await Relay.running(to: provider.port, certificate: certificate) { port in
                let base = "https://localhost:\(port)"
                if namesBase { provider.script { $0.discovery = Self.metadata(at: base) } }
                var settings = ProviderGateway.Settings(issuer: Self.issuer)
                settings.identity = [
                    "user: userInfo", "endpoints: { base: \"\(base)\" }",
                    "tls: { caFile: \"\(certificate.certificateFile)\" }",
                ]
                try await ProviderGateway.running(settings, port: try FreePort.next()) { site in
                    try await signsInAndOut(site, provider)
                }
            }
        }
    }

    private func signsInAndOut(_ site: ProviderGateway, _ provider: MockProvider) async throws {
        let browser = FormBrowser()
        let request = try await site.beginLogin(browser)
        expect(request.url.hasPrefix(Self.issuer + "/authorize?"))
        // The test knows where the browser finds the provider.
        _ = try await browser.visit(provider.address + request.url.dropFirst(Self.issuer.count))
        try await expect(site.session(browser).status, equals: 200)
        site.mock.faults.failNext("GET", "/__mock/bytes", statuses: [401])
        try await expect(site.bytes(browser).status, equals: 200)
        try await expect(browser.send("DELETE", site.base + "/auth").status, equals: 200)
        let redirect = try await browser.send("GET", site.base + "/auth/logout", FormBrowser.navigation)
        expect(redirect.values(of: "Location").first?.hasPrefix(Self.issuer + "/end_session?"), equals: true)
        let calls = provider.observations.snapshot()
        expect(calls.count("POST", "/par") == 1 && calls.count("POST", "/revoke") == 1)
        expect(calls.count("POST", "/token") == 2 && calls.count("GET", "/userinfo") >= 1)
    }
}
