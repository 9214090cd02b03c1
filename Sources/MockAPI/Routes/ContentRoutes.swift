import FoundationEssentials
import Hummingbird
import NIOCore

/// `/episodes` for everybody; `/videos/{id}` and `/user` with an access token.
struct ContentRoutes {
    let accounts: Accounts
    let accessTokens: AccessTokens
    let now: @Sendable () -> Date

    func register(on router: Router<BasicRequestContext>) throws {
        let episodes = try JSONAnswer.encode(Catalogue.episodes)
        router.get("episodes") { _, _ in JSONAnswer.ok(episodes) }
        router.get("videos/:id") { request, context in
            try video(context.parameters.get("id") ?? "", for: request)
        }
        router.get("user") { request, _ in try user(request) }
    }

    /// The token is looked at first: who is not signed in does not learn which videos there are.
    private func video(_ id: String, for request: Request) throws -> Response {
        guard account(for: request) != nil else { return badAccessToken }
        guard let video = Catalogue.video(withID: id) else {
            return JSONAnswer.error(.notFound, "There is no such video.")
        }
        return try JSONAnswer.unstorable(video)
    }

    private func user(_ request: Request) throws -> Response {
        guard let account = account(for: request) else { return badAccessToken }
        return try JSONAnswer.unstorable(account)
    }

    private func account(for request: Request) -> Account? {
        AuthorizationCredentials.read(from: request.headers, scheme: "bearer")
            .flatMap { accessTokens.accountID(for: $0, now: now()) }
            .flatMap(accounts.account(withID:))
    }

    private var badAccessToken: Response {
        JSONAnswer.unauthorized(.bearer, "The access token is missing or no longer good.")
    }
}
