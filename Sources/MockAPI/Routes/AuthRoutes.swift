import NIOHTTP1

/// `/auth`, `/auth/refresh`, `/auth/revoke`, and the older `/api/v1/signin`.
///
/// Folder `Routes/`: the endpoints of the API and of its page.
struct AuthRoutes {
    let issuer: TokenIssuer

    var routes: RouteTable {
        [
            "POST /auth": { try signIn($0, issuer.signIn) },
            "POST /auth/refresh": { try refresh($0) },
            "POST /auth/revoke": { revoke($0) },
            "POST /api/v1/signin": { try signIn($0, issuer.signInWithoutRefresh) },
        ]
    }

    private func signIn(
        _ request: MockRequest, _ issue: (BasicCredentials) throws -> (some Encodable)?
    ) throws -> MockResponse {
        guard let tokens = try BasicCredentials(request.fields).flatMap(issue) else {
            return .unauthorized(.basic, "The e-mail address or the password is wrong.")
        }
        return try .noStore(tokens)
    }

    private func refresh(_ request: MockRequest) throws -> MockResponse {
        guard let token = AuthorizationCredentials.read(from: request.fields, scheme: "bearer"),
            let tokens = try issuer.refresh(token)
        else { return badRefreshToken }
        return try .noStore(tokens)
    }

    private func revoke(_ request: MockRequest) -> MockResponse {
        guard let token = AuthorizationCredentials.read(from: request.fields, scheme: "bearer"), issuer.revoke(token)
        else { return badRefreshToken }
        return MockResponse(.noContent)
    }

    private var badRefreshToken: MockResponse {
        .unauthorized(.bearer, "The refresh token is missing or invalid.")
    }
}

/// The account of the access token of a request, or that of ``MockAPISettings/userField``.
struct BearerAuthenticator {
    let issuer: TokenIssuer
    let userField: String?

    /// The response for the account of a request; 401 if there is no token or an invalid one.
    func respond(_ request: MockRequest, _ work: (Account) throws -> MockResponse) rethrows -> MockResponse {
        let id = userField.map { request.fields[$0].joined(separator: ", ") } ?? ""
        let token = AuthorizationCredentials.read(from: request.fields, scheme: "bearer")
        guard
            let account = id.isEmpty ? token.flatMap({ issuer.account(of: $0) }) : Account(id: id, email: "", name: id)
        else { return .unauthorized(.bearer, "The access token is missing or invalid.") }
        return try work(account)
    }
}
