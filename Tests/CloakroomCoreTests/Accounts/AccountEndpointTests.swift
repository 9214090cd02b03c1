import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The gateway's own endpoints")
struct AccountEndpointTests {
    @Test("Rule 22: requests and responses print neither credentials nor the ticket")
    func redacted() {
        var generator = SystemRandomNumberGenerator()
        let ticket = SessionTicket(using: &generator)
        let request = AccountRequest(
            endpoint: .signIn, ticket: ticket, authorization: Secret("Basic canary"), contentType: "application/json",
            body: Secret("canary"), now: SessionTime(seconds: 0))
        let response = AccountResponse(
            status: 200, fields: [AccountResponse.Field("Set-Cookie", "__Host-cloakroom=\(ticket.cookieValue)")])
        var dumped = ""
        dump(request, to: &dumped)
        dump(response, to: &dumped)
        for text in [String(reflecting: request), String(reflecting: response), "\(request)", "\(response)", dumped] {
            expect(!text.contains("canary"))
            expect(!text.contains(ticket.cookieValue))
        }
    }

    @Test("accept a body only where one is needed: large enough for an address and a passphrase, every byte escaped")
    func bodyLimits() {
        let limits: [AccountEndpoint: Int] = [
            .signIn: 1_024, .app: 2_048, .pageSignIn: 4_096, .appCode: 8_192, .backChannel: 16_384,
        ]
        for endpoint in AccountEndpoint.allCases {
            expect(endpoint.bodyLimit, equals: limits[endpoint, default: 0], "\(endpoint)")
        }
    }

    @Test("A browser without a session goes to the only provider, and to the page if there is a choice or a password")
    func signInPath() {
        func path(_ upstream: Int?, _ identities: [SignInSource]) -> String {
            AccountsConfiguration(prefix: "/a", upstream: upstream, identities: identities).signInPath
        }
        expect(path(nil, [.provider(0)]), equals: "/a/login")
        expect(path(nil, [.provider(1), .provider(0)]), equals: "/a/page")
        expect(path(0, [.provider(0), .upstream(0)]), equals: "/a/page")
        expect(path(0, []), equals: "/a/page")
    }
}
