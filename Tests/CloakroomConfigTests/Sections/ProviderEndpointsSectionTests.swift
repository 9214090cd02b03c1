import CloakroomConfig
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("endpoints of an identity")
struct ProviderEndpointsSectionTests {
    private static let urls =
        "authorization: https://id.example.com/a, token: https://id.example.com/t, keys: https://id.example.com/k"

    /// A configuration with these endpoints, in line 11.
    private func fixture(_ endpoints: String) throws -> ConfigFixture {
        try ConfigFixture(
            IdentitiesSectionTests.good.replacing("scopes: [openid]", with: "endpoints: { \(endpoints) }"))
    }

    private func endpoints(_ text: String) throws -> ProviderEndpoints {
        try require(fixture(text).load().configuration.identities.first).endpoints
    }

    @Test("An address, its Host, and endpoints in place of the metadata")
    func values() throws {
        let moved = try endpoints("base: \"https://keycloak.idp.svc:8443\", host: issuer")
        expect(moved.base, equals: WebOrigin("https://keycloak.idp.svc:8443"))
        expect(moved.host == .issuer && moved.fixed == nil)
        let fixed = try endpoints("metadata: false, \(Self.urls), pushed: https://id.example.com/par")
        expect(fixed.base == nil && fixed.host == .base)
        expect(fixed.fixed?.token, equals: EndpointURL("https://id.example.com/t"))
        expect(fixed.fixed?.pushed, equals: EndpointURL("https://id.example.com/par"))
        expect(fixed.fixed?.userInfo == nil && fixed.fixed?.endSession == nil)
    }

    @Test(
        "Identity rule 31: an address that gets secrets unencrypted is a warning, unless it is this machine",
        arguments: [
            ("base: \"http://keycloak.idp.svc:8080\", plaintext: true", "unencrypted to http://keycloak.idp.svc:8080"),
            ("base: \"http://127.0.0.1:8080\"", nil), ("base: https://keycloak.idp.svc", nil),
            ("base: https://keycloak.idp.svc, plaintext: true", "has no effect without an http base"),
            ("host: issuer", "has no effect without base"),
        ] as [(String, String?)])
    func warnings(text: String, warning: String?) throws {
        let found = try fixture(text).load().warnings.map(\.description).filter { $0.contains(".endpoints.") }
        expect(found.count, equals: (warning == nil ? 0 : 1), "\(found)")
        if let warning { expect(found.allSatisfy { $0.contains(":11:") && $0.contains(warning) }, "\(found)") }
    }

    @Test(
        "A mistake is reported at its line, with a remedy",
        arguments: [
            ("endpoints: { base: \"http://keycloak.idp.svc:8080\" }", "11:", "would be sent unencrypted"),
            (
                "endpoints: { base: \"http://keycloak.idp.svc:8080\", plaintext: false }", "11:",
                "plaintext: true if the network"
            ),
            ("endpoints: { base: https://id.example.com/realms }", "11:", "without a path"),
            ("endpoints: { host: both }", "11:", "must be one of the allowed values"),
            ("endpoints: { token: https://id.example.com/t }", "11:", "conflicts with metadata: true"),
            ("endpoints: { metadata: false }", "", "required key missing: metadata is false"),
            (
                "endpoints: { metadata: false, \(urls), userInfo: http://id.example.com/u }", "11:",
                "must be an https URL"
            ),
            (
                "endpoints: { base: https://idp.svc, metadata: false, \(urls), revocation: https://a/r }", "11:",
                "must be at the issuer or at base"
            ),
            ("endpoints: { metadata: false, \(urls) }\n    user: userInfo", "", "user is userInfo"),
            ("endpoints: { metadata: false, \(urls) }\n    pushed: always", "", "pushed is always"),
        ])
    func mistakes(text: String, place: String, message: String) throws {
        try ConfigFixture.expectError(
            message, at: place, in: IdentitiesSectionTests.good, replacing: "scopes: [openid]", by: text)
    }
}
