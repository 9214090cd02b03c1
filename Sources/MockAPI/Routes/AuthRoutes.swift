import FoundationEssentials
import HTTPTypes
import Hummingbird

/// `/auth`, `/auth/refresh`, `/auth/revoke`, and the older `/api/v1/signin`.
///
/// Folder `Routes/`: the endpoints of the API and of its page.
struct AuthRoutes {
    let issuer: TokenIssuer

    func register(on router: Router<BasicRequestContext>) {
        router.post("auth") { request, _ in try signIn(request, issuer.signIn) }
        router.post("auth/refresh") { request, _ in try refresh(request) }
        router.post("auth/revoke") { request, _ in revoke(request) }
        router.post("api/v1/signin") { request, _ in try signIn(request, issuer.signInWithoutRefresh) }
    }

    private func signIn(_ request: Request, _ issue: (BasicCredentials) throws -> (some Encodable)?) throws -> Response
    {
        guard let tokens = try BasicCredentials(request.headers).flatMap(issue) else {
            return JSONResponse.unauthorized(.basic, "The e-mail address or the password is wrong.")
        }
        return try JSONResponse.noStore(tokens)
    }

    private func refresh(_ request: Request) throws -> Response {
        guard let token = AuthorizationCredentials.read(from: request.headers, scheme: "bearer"),
            let tokens = try issuer.refresh(token)
        else { return badRefreshToken }
        return try JSONResponse.noStore(tokens)
    }

    private func revoke(_ request: Request) -> Response {
        guard let token = AuthorizationCredentials.read(from: request.headers, scheme: "bearer"), issuer.revoke(token)
        else { return badRefreshToken }
        return Response(status: .noContent)
    }

    private var badRefreshToken: Response {
        JSONResponse.unauthorized(.bearer, "The refresh token is missing or invalid.")
    }
}

/// The account of the access token of a request, or that of ``MockAPISettings/userField``.
struct BearerAuthenticator {
    let issuer: TokenIssuer
    let userField: HTTPField.Name?

    /// `nil` if there is no token or an invalid one.
    func account(for request: Request) -> Account? {
        if let userField, let id = request.headers[userField], !id.isEmpty {
            return Account(id: id, email: "", name: id)
        }
        return AuthorizationCredentials.read(from: request.headers, scheme: "bearer").flatMap { issuer.account(of: $0) }
    }

    /// The response to a request without a valid token.
    var rejection: Response {
        JSONResponse.unauthorized(.bearer, "The access token is missing or invalid.")
    }
}

/// Responds with 403 to every request, for any path, that does not contain the API token exactly once.
///
/// Two fields are rejected even if both are correct: a proxy must set this field, not add one.
struct APITokenMiddleware: RouterMiddleware {
    typealias Context = BasicRequestContext

    private let expected: SecretFingerprint

    init(apiToken: String) {
        expected = SecretFingerprint(of: apiToken)
    }

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        var presented = request.headers.lazy.filter { $0.name.canonicalName == "x-api-token" }.makeIterator()
        guard let field = presented.next(), presented.next() == nil, SecretFingerprint(of: field.value) == expected
        else { return JSONResponse.error(.forbidden, "The X-API-TOKEN header is missing or wrong.") }
        return try await next(request, context)
    }
}
