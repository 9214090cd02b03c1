import CloakroomCore
import Testing

@Suite("The gateway's own endpoints")
struct AccountEndpointTests {
    @Test("Rule 22: a request does not show what may be a password, an answer does not show the ticket")
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

    @Test("read a body for a sign-in alone, large enough for an address and a passphrase with every byte escaped")
    func bodyLimits() {
        for endpoint in AccountEndpoint.allCases {
            #expect(endpoint.bodyLimit == (endpoint == .signIn ? 1_024 : 0), "\(endpoint)")
        }
    }
}
