import FoundationEssentials
import HTTPTypes
import Hummingbird

/// `/auth`, `/auth/refresh`, `/auth/revoke`, and the older `/api/v1/signin`.
///
/// Folder `Routes/`: the endpoints of the API and of its page.
struct AuthRoutes {
    let accounts: AccountStore
    let accessTokens: AccessTokens
    let refreshTokens: RefreshTokens
    let observations: RequestRecorder
    let now: @Sendable () -> Date

    func register(on router: Router<BasicRequestContext>) {
        router.post("auth") { request, _ in try signIn(request) }
        router.post("auth/refresh") { request, _ in try refresh(request) }
        router.post("auth/revoke") { request, _ in revoke(request) }
        router.post("api/v1/signin") { request, _ in try signInWithoutRefresh(request) }
    }

    private func signIn(_ request: Request) throws -> Response {
        guard let account = account(for: request) else { return wrongCredentials }
        let now = now()
        return try JSONResponse.noStore(
            TokenPair(
                accessToken: accessTokens.issue(to: account.id, now: now),
                refreshToken: refreshTokens.issue(to: account.id, now: now)))
    }

    private func signInWithoutRefresh(_ request: Request) throws -> Response {
        guard let account = account(for: request) else { return wrongCredentials }
        return try JSONResponse.noStore(
            AccessTokenOnly(accessToken: accessTokens.issue(to: account.id, now: now(), expires: false)))
    }

    private func refresh(_ request: Request) throws -> Response {
        guard let token = AuthorizationCredentials.read(from: request.headers, scheme: "bearer") else {
            return badRefreshToken
        }
        let now = now()
        switch refreshTokens.rotate(token, now: now) {
        case .rotated(let refreshToken, let accountID):
            observations.recordRefresh(at: now.timeIntervalSince1970)
            return try JSONResponse.noStore(
                TokenPair(accessToken: accessTokens.issue(to: accountID, now: now), refreshToken: refreshToken))
        case .reused:
            observations.recordReuse()
            return badRefreshToken
        case .rejected:
            return badRefreshToken
        }
    }

    private func revoke(_ request: Request) -> Response {
        guard let token = AuthorizationCredentials.read(from: request.headers, scheme: "bearer"),
            refreshTokens.revoke(token)
        else { return badRefreshToken }
        return Response(status: .noContent)
    }

    private func account(for request: Request) -> Account? {
        BasicCredentials(request.headers).flatMap(accounts.authenticate)
    }

    private var wrongCredentials: Response {
        JSONResponse.unauthorized(.basic, "The e-mail address or the password is wrong.")
    }

    private var badRefreshToken: Response {
        JSONResponse.unauthorized(.bearer, "The refresh token is missing or invalid.")
    }
}

/// The account of the access token of a request, or that of ``MockAPISettings/userField``.
struct BearerAuthenticator {
    let accounts: AccountStore
    let accessTokens: AccessTokens
    var userField: HTTPField.Name?
    let now: @Sendable () -> Date

    /// `nil` if there is no token or an invalid one.
    func account(for request: Request) -> Account? {
        if let userField, let id = request.headers[userField], !id.isEmpty {
            return Account(id: id, email: "", name: id)
        }
        return AuthorizationCredentials.read(from: request.headers, scheme: "bearer")
            .flatMap { accessTokens.accountID(for: $0, now: now()) }
            .flatMap(accounts.account(withID:))
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
