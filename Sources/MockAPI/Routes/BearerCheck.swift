import FoundationEssentials
import Hummingbird

/// The account of the access token of a request.
struct BearerAuthenticator {
    let accounts: AccountStore
    let accessTokens: AccessTokens
    let now: @Sendable () -> Date

    /// `nil` if there is no token or an invalid one.
    func account(for request: Request) -> Account? {
        AuthorizationCredentials.read(from: request.headers, scheme: "bearer")
            .flatMap { accessTokens.accountID(for: $0, now: now()) }
            .flatMap(accounts.account(withID:))
    }

    /// The response to a request without a valid token.
    var rejection: Response {
        JSONResponse.unauthorized(.bearer, "The access token is missing or invalid.")
    }
}
