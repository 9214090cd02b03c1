import FoundationEssentials
import NIOHTTP1

/// The endpoints that the client requests with its authentication: token, pushed authorization requests, revocation,
/// introspection; and userinfo, with an access token.
struct TokenRoutes {
    static let exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"
    private static let accessTokenType = "urn:ietf:params:oauth:token-type:access_token"

    let state: ProviderState
    let observations: RequestRecorder

    var routes: RouteTable {
        [
            "POST /token": { try await authenticated($0, nil, token) },
            "POST /par": { try await authenticated($0, .pushed, push) },
            "POST /revoke": { try await authenticated($0, .revocation, revoke) },
            "POST /introspect": { try await authenticated($0, .introspection, introspect) },
            "GET /userinfo": { request in try await state.respond(.userInfo) { userInfo(request) } },
            "POST /userinfo": { request in try await state.respond(.userInfo) { userInfo(request) } },
        ]
    }

    private static func endpoint(of form: TokenForm?) -> ProviderEndpoint {
        switch form?["grant_type"] {
        case "authorization_code": .code
        case "refresh_token": .refresh
        case exchangeGrant: .exchange
        default: .token
        }
    }

    /// The response to a form with the authentication of the client.
    /// - Parameter endpoint: `nil` if it depends on the grant.
    private func authenticated(
        _ request: MockRequest, _ endpoint: ProviderEndpoint?, _ work: (TokenForm) throws -> MockResponse
    ) async throws -> MockResponse {
        let form = try await TokenForm(request)
        return try await state.respond(endpoint ?? Self.endpoint(of: form)) {
            guard let form else { return MockResponse(providerError: "invalid_request") }
            guard state.client.isAuthenticated(request.fields, form) else {
                var response = MockResponse(providerError: "invalid_client", .unauthorized)
                response.fields.add(name: "WWW-Authenticate", value: #"Basic realm="provider""#)
                return response
            }
            state.record(ProviderTokenRequest(parameters: form.parameters))
            return try work(form)
        }
    }

    private func token(_ form: TokenForm) throws -> MockResponse {
        let tokens: RawObject?
        switch form["grant_type"] {
        case "authorization_code":
            guard let code = form["code"], let verifier = form["code_verifier"] else {
                return MockResponse(providerError: "invalid_request")
            }
            tokens = try state.redeem(code: code, redirectURI: form["redirect_uri"], verifier: verifier)
        case "refresh_token":
            guard let token = form["refresh_token"] else { return MockResponse(providerError: "invalid_request") }
            switch try state.refresh(token) {
            case .refreshed(let refreshed):
                observations.recordRefresh(at: state.now.timeIntervalSince1970)
                tokens = refreshed
            case .reused:
                observations.recordReuse()
                tokens = nil
            case .rejected: tokens = nil
            }
        case Self.exchangeGrant:
            guard let token = form["subject_token"], form["subject_token_type"] == Self.accessTokenType,
                let audience = form["audience"] ?? form["resource"]
            else { return MockResponse(providerError: "invalid_request") }
            tokens = try state.exchange(token, audience: audience, scope: form["scope"])
        case nil: return MockResponse(providerError: "invalid_request")
        default: return MockResponse(providerError: "unsupported_grant_type")
        }
        return tokens.map { MockResponse(providerJSON: $0.json) } ?? MockResponse(providerError: "invalid_grant")
    }

    /// RFC 9126 §2.1: `request_uri` is not permitted.
    private func push(_ form: TokenForm) -> MockResponse {
        guard form["request_uri"] == nil, form["client_id"] == state.settings.clientID else {
            return MockResponse(providerError: "invalid_request")
        }
        let reference = state.push(form.parameters)
        return MockResponse(
            providerJSON: #"{"request_uri":\#(RawJSON.string(reference)),"expires_in":60}"#, .created)
    }

    /// An unknown token is no error (RFC 7009 §2.2).
    private func revoke(_ form: TokenForm) -> MockResponse {
        guard let token = form["token"] else { return MockResponse(providerError: "invalid_request") }
        state.revoke(token)
        return MockResponse(.ok)
    }

    /// RFC 7662 §2.2.
    private func introspect(_ form: TokenForm) -> MockResponse {
        guard let token = form["token"] else { return MockResponse(providerError: "invalid_request") }
        return MockResponse(providerJSON: state.script.introspections[token] ?? #"{"active":false}"#)
    }

    private func userInfo(_ request: MockRequest) -> MockResponse {
        guard let token = AuthorizationCredentials.read(from: request.fields, scheme: "bearer"),
            let document = state.userInfo(String(token))
        else {
            return MockResponse(.unauthorized, ["WWW-Authenticate": #"Bearer error="invalid_token""#])
        }
        return MockResponse(providerJSON: document.json)
    }
}
