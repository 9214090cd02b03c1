import FoundationEssentials
import HTTPTypes
import Hummingbird

/// The endpoints that the client requests with its authentication: token, pushed authorization requests, revocation; and
/// userinfo, with an access token.
struct TokenRoutes {
    static let exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"
    private static let accessTokenType = "urn:ietf:params:oauth:token-type:access_token"

    let state: ProviderState
    let observations: RequestRecorder

    func register(on router: Router<ProviderContext>) {
        router.post(RouterPath(ProviderPath.token)) { request, context in
            let form = try await TokenForm(request)
            return try await ProviderResponse.perform(Self.endpoint(of: form), state, context) {
                try authenticated(request, form, token)
            }
        }
        router.post(RouterPath(ProviderPath.pushed)) { request, context in
            let form = try await TokenForm(request)
            return try await ProviderResponse.perform(.pushed, state, context) {
                try authenticated(request, form, push)
            }
        }
        router.post(RouterPath(ProviderPath.revocation)) { request, context in
            let form = try await TokenForm(request)
            return try await ProviderResponse.perform(.revocation, state, context) {
                try authenticated(request, form, revoke)
            }
        }
        for method in [HTTPRequest.Method.get, .post] {
            router.on(RouterPath(ProviderPath.userInfo), method: method) { request, context in
                try await ProviderResponse.perform(.userInfo, state, context) { userInfo(request) }
            }
        }
    }

    private static func endpoint(of form: TokenForm?) -> ProviderEndpoint {
        switch form?["grant_type"] {
        case "authorization_code": .code
        case "refresh_token": .refresh
        case exchangeGrant: .exchange
        default: .token
        }
    }

    private func authenticated(
        _ request: Request, _ form: TokenForm?, _ work: (TokenForm) throws -> ProviderResponse
    ) throws -> ProviderResponse {
        guard let form else { return .error("invalid_request") }
        guard state.client.isAuthenticated(request.headers, form) else {
            var response = ProviderResponse.error("invalid_client", status: 401)
            response.fields.append((name: "WWW-Authenticate", value: #"Basic realm="provider""#))
            return response
        }
        state.record(ProviderTokenRequest(parameters: form.parameters))
        return try work(form)
    }

    private func token(_ form: TokenForm) throws -> ProviderResponse {
        switch form["grant_type"] {
        case "authorization_code":
            guard let code = form["code"], let verifier = form["code_verifier"] else {
                return .error("invalid_request")
            }
            let tokens = try state.redeem(code: code, redirectURI: form["redirect_uri"], verifier: verifier)
            return tokens.map { .json($0.json) } ?? .error("invalid_grant")
        case "refresh_token":
            guard let token = form["refresh_token"] else { return .error("invalid_request") }
            switch try state.refresh(token) {
            case .refreshed(let tokens):
                observations.recordRefresh(at: state.now.timeIntervalSince1970)
                return .json(tokens.json)
            case .reused:
                observations.recordReuse()
                return .error("invalid_grant")
            case .rejected: return .error("invalid_grant")
            }
        case Self.exchangeGrant:
            guard let token = form["subject_token"], form["subject_token_type"] == Self.accessTokenType,
                let audience = form["audience"] ?? form["resource"]
            else { return .error("invalid_request") }
            let tokens = try state.exchange(token, audience: audience, scope: form["scope"])
            return tokens.map { .json($0.json) } ?? .error("invalid_grant")
        case nil: return .error("invalid_request")
        default: return .error("unsupported_grant_type")
        }
    }

    /// RFC 9126 §2.1: `request_uri` is not permitted.
    private func push(_ form: TokenForm) throws -> ProviderResponse {
        guard form["request_uri"] == nil, form["client_id"] == state.settings.clientID else {
            return .error("invalid_request")
        }
        let reference = state.push(form.parameters)
        return .json(#"{"request_uri":\#(RawJSON.string(reference)),"expires_in":60}"#, status: 201)
    }

    /// An unknown token is no error (RFC 7009 §2.2).
    private func revoke(_ form: TokenForm) throws -> ProviderResponse {
        guard let token = form["token"] else { return .error("invalid_request") }
        state.revoke(token)
        return ProviderResponse()
    }

    private func userInfo(_ request: Request) -> ProviderResponse {
        guard let token = AuthorizationCredentials.read(from: request.headers, scheme: "bearer"),
            let document = state.userInfo(String(token))
        else {
            return ProviderResponse(
                status: 401, fields: [(name: "WWW-Authenticate", value: #"Bearer error="invalid_token""#)])
        }
        return .json(document.json)
    }
}
