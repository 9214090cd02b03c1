import CloakroomCore
import Testing

@Suite("The gateway's own endpoints")
struct AccountEndpointTests {
    @Test("Rule 22: requests and responses print neither credentials nor the ticket")
    func redacted() {
        var generator = SystemRandomNumberGenerator()
        let ticket = SessionTicket(using: &generator)
        let request = AccountRequest(
            endpoint: .signIn, ticket: ticket, authorization: Secret("Basic canary"), contentType: "application/json",
            body: Secret("canary"), now: Timestamp(seconds: 0))
        let response = AccountResponse(
            status: 200, fields: [AccountResponse.Field("Set-Cookie", "__Host-cloakroom=\(ticket.cookieValue)")])
        var dumped = ""
        dump(request, to: &dumped)
        dump(response, to: &dumped)
        for text in [String(reflecting: request), String(reflecting: response), "\(request)", "\(response)", dumped] {
            #expect(!text.contains("canary"))
            #expect(!text.contains(ticket.cookieValue))
        }
    }

    @Test("accept a body only for sign-in, large enough for an address and a passphrase with every byte escaped")
    func bodyLimits() {
        for endpoint in AccountEndpoint.allCases {
            #expect(endpoint.bodyLimit == (endpoint == .signIn ? 1_024 : 0), "\(endpoint)")
        }
    }
}
