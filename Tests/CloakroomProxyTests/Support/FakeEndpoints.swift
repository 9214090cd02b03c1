import CloakroomCore

/// Account endpoints whose response a test chooses.
struct FakeEndpoints: AccountEndpointHandler {
    var response: @Sendable (AccountRequest) async -> AccountResponse = { _ in
        AccountResponse(status: 200, content: .json(Array("{}".utf8)))
    }

    func respond(_ request: AccountRequest) async -> AccountResponse {
        await response(request)
    }
}
