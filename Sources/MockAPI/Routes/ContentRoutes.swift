import FoundationEssentials
import Hummingbird
import NIOCore

/// Public `/episodes`; `/videos/{id}` and `/user` with an access token.
struct ContentRoutes {
    let bearer: BearerAuthenticator

    func register(on router: Router<BasicRequestContext>) throws {
        let episodes = try JSONResponse.encode(Catalogue.episodes)
        router.get("episodes") { _, _ in JSONResponse.ok(episodes) }
        router.get("videos/:id") { request, context in
            try video(context.parameters.get("id") ?? "", for: request)
        }
        router.get("user") { request, _ in try user(request) }
    }

    /// The token is checked first, so clients without a session cannot find out which videos exist.
    private func video(_ id: String, for request: Request) throws -> Response {
        guard bearer.account(for: request) != nil else { return bearer.rejection }
        guard let video = Catalogue.video(withID: id) else {
            return JSONResponse.error(.notFound, "No such video.")
        }
        return try JSONResponse.noStore(video)
    }

    private func user(_ request: Request) throws -> Response {
        guard let account = bearer.account(for: request) else { return bearer.rejection }
        return try JSONResponse.noStore(account)
    }
}
