import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("CORS policy")
struct CORSPolicyTests {
    private static let on = CrossSiteConfiguration(
        trustedOrigins: ["https://partner.test"],
        corsOrigins: ["https://app.example.com", "http://localhost:5173"])

    private struct PreflightRequest {
        var policy: CORSPolicy
        var head: RequestHead
        var summary: RequestHeaderPolicy.RequestHeaderSummary

        var standing: CORSPolicy.OriginMatch { policy.matchOrigin(of: head, summary: summary) }
        var isPreflight: Bool { asksAbout != nil }
        /// The requested method of a preflight.
        var asksAbout: String? { head.text(policy.preflight(head, summary: summary)) }

        func preflight(_ methods: String = "GET, HEAD, POST") -> [String] {
            text(policy.preflightLines(standing, head, methods: methods))
        }

        var response: [String]? { policy.responseFieldLines(standing).map(text) }

        private func text(_ lines: [UInt8]) -> [String] {
            String(decoding: lines, as: UTF8.self).split(separator: "\r\n", omittingEmptySubsequences: false)
                .map(String.init)
        }
    }

    private func ask(_ fields: String..., configuration: CrossSiteConfiguration = on) throws -> PreflightRequest {
        var head = try RequestHead.with(lines: ["Host: api.example.com"] + fields, start: "OPTIONS /a HTTP/1.1")
        let summary = RequestHeaderPolicy(injectable: ["X-API-TOKEN"], cookie: SessionCookie(CookieConfiguration()))
            .apply(&head, isTrusted: false)
        return PreflightRequest(
            policy: CORSPolicy(configuration, injectable: ["X-API-TOKEN"]), head: head, summary: summary)
    }

    @Test("Trusted-only origins, wildcards and null do not enable CORS", arguments: ["*", "null", "https://*"])
    func nothingToSwitchOn(entry: String) {
        let configuration = CrossSiteConfiguration(trustedOrigins: ["https://partner.test"], corsOrigins: [entry])
        expect(!CORSPolicy(configuration, injectable: []).isEnabled)
    }

    @Test(
        "All other origins get only the Vary field",
        arguments: [
            "https://evil.test", "http://app.example.com", "https://app.example.com:8443", "null", "*", "",
            "https://app.example.com.evil.test", "https://partner.test", "http://localhost",
        ])
    func stranger(origin: String) throws {
        let asked = try ask("Origin: \(origin)", "Access-Control-Request-Method: POST")
        expect(asked.standing, equals: .notAllowed)
        expect(asked.response, equals: ["Vary: Origin", ""])
        expect(asked.isPreflight)
        expect(
            asked.preflight(),
            equals: [
                "Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers", "",
            ])
    }

    @Test("A request with no origin or with two origins is not allowed")
    func noneOrTwo() throws {
        try expect(ask().standing, equals: .notAllowed)
        try expect(
            ask("Origin: https://app.example.com", "Origin: https://app.example.com").standing, equals: .notAllowed)
    }

    @Test("A preflight has an origin and a requested method")
    func preflight() throws {
        try expect(
            ask("Origin: https://app.example.com", "access-control-request-method: PUT").asksAbout, equals: "PUT")
        try expect(!ask("Origin: https://app.example.com").isPreflight)
        try expect(!ask("Access-Control-Request-Method: PUT").isPreflight)
    }

    @Test("Invalid field names, wildcards and names that the gateway injects are not allowed")
    func fieldNames() throws {
        let asked = try ask(
            "Origin: https://app.example.com", "Access-Control-Request-Method: POST",
            "Access-Control-Request-Headers: x-a, *, x b, x:c, \u{e9}, x-api-token, X_Api.Token, x-client-cert-subject,"
                + " x\"d, ,, x-e*")
        expect(asked.preflight().filter { $0.contains("Allow-Headers") }, equals: ["Access-Control-Allow-Headers: x-a"])
        let none = try ask(
            "Origin: https://app.example.com", "Access-Control-Request-Method: POST",
            "Access-Control-Request-Headers: *")
        expect(empty: none.preflight().filter { $0.contains("Allow-Headers") })
    }

    @Test("At most 64 field names are allowed per preflight")
    func manyNames() throws {
        let names = (1...100).map { "x-\($0)" }.joined(separator: ",")
        let asked = try ask(
            "Origin: https://app.example.com", "Access-Control-Request-Method: POST",
            "Access-Control-Request-Headers: \(names)")
        let line = try require(asked.preflight().first { $0.contains("Allow-Headers") })
        expect(line.hasSuffix(" x-64"))
        expect(line.filter { $0 == "," }.count, equals: 63)
    }
}
