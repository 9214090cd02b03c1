import FoundationEssentials
import Hummingbird

/// Who is behind the access token of a request.
struct BearerAuthenticator {
    let accounts: AccountStore
    let accessTokens: AccessTokens
    let now: @Sendable () -> Date

    /// Nothing when there is no token, or one that is no longer good.
    func account(for request: Request) -> Account? {
        AuthorizationCredentials.read(from: request.headers, scheme: "bearer")
            .flatMap { accessTokens.accountID(for: $0, now: now()) }
            .flatMap(accounts.account(withID:))
    }

    /// The answer to who has none.
    var rejection: Response {
        JSONResponse.unauthorized(.bearer, "The access token is missing or no longer good.")
    }
}
