import Crypto
public import FoundationEssentials
import Synchronization

/// A sign-in at a ``MockProvider``.
public struct ProviderLogin: Sendable, Redacted {
    /// `sub`.
    public let subject: String
    /// `sid` of its ID tokens.
    public let sessionID: String
    /// `acr` of its ID tokens; `nil` for none.
    public let contextClass: String?
    /// `auth_time` of its ID tokens.
    public let authenticatedAt: Date
    /// The parameters of the authorization request, also of a pushed one.
    public let parameters: [String: String]
}

/// A request to the token endpoint of a ``MockProvider``.
public struct ProviderTokenRequest: Sendable, Redacted {
    /// The parameters.
    public let parameters: [String: String]
}

/// The state of a provider: keys, script, and what it issued. Thread-safe.
final class ProviderState: Sendable {
    private struct State {
        var port = 0
        var issuer = ""
        var script = ProviderScript()
        var forge: TokenForge
        var logins: [ProviderLogin] = []
        var tokenRequests: [ProviderTokenRequest] = []
        var codes: [String: IssuedCode] = [:]
        var pushed: [String: [String: String]] = [:]
        var refreshTokens: RefreshTokenStore
        var accessTokens: [String: IssuedAccessToken] = [:]
        var issued: [String] = []
    }

    let settings: MockProviderSettings
    let client: MockClient
    private let state: Mutex<State>

    init(_ settings: MockProviderSettings) throws {
        self.settings = settings
        client = MockClient(id: settings.clientID, secret: settings.clientSecret)
        let forge = try TokenForge(settings.algorithm)
        state = Mutex(
            State(
                script: settings.script, forge: forge,
                refreshTokens: RefreshTokenStore(lifetime: settings.refreshTokenLifetime)))
    }

    var now: Date { settings.now() }
    var port: Int { state.withLock { $0.port } }
    var issuer: String { state.withLock { $0.issuer } }
    var script: ProviderScript { state.withLock { $0.script } }
    var logins: [ProviderLogin] { state.withLock { $0.logins } }
    var tokenRequests: [ProviderTokenRequest] { state.withLock { $0.tokenRequests } }
    /// All codes and tokens so far.
    var issued: [String] { state.withLock { $0.issued } }

    func listens(on port: Int) {
        state.withLock { ($0.port, $0.issuer) = (port, settings.issuer ?? "http://\(settings.host):\(port)") }
    }

    func update<Result>(_ change: (inout ProviderScript) throws -> Result) rethrows -> Result {
        try state.withLock { try change(&$0.script) }
    }

    func record(_ request: ProviderTokenRequest) { state.withLock { $0.tokenRequests.append(request) } }

    /// The fault of a request, which counts as used.
    func nextFault(_ endpoint: ProviderEndpoint) -> EndpointFault? {
        state.withLock { state in
            for name in [endpoint, .all] {
                guard let index = state.script.faults[name]?.firstIndex(where: { $0.count != 0 }) else { continue }
                let fault = state.script.faults[name]?[index]
                if let count = fault?.count { state.script.faults[name]?[index].count = count - 1 }
                return fault
            }
            return nil
        }
    }

    // MARK: - Authorization

    /// Stores a pushed request.
    /// - Returns: Its reference.
    func push(_ parameters: [String: String]) -> String {
        let reference = "urn:ietf:params:oauth:request_uri:" + RandomToken.make()
        state.withLock { $0.pushed[reference] = parameters }
        return reference
    }

    /// The pushed request, once (RFC 9126 §7.3).
    func pulled(_ reference: String) -> [String: String]? {
        state.withLock { $0.pushed.removeValue(forKey: reference) }
    }

    /// Signs the user of the script in.
    /// - Returns: The code.
    func signIn(_ parameters: [String: String]) -> String {
        let (now, code) = (now, RandomToken.make())
        state.withLock { state in
            let requested = parameters["acr_values"]?.split(separator: " ").first.map(String.init)
            let login = ProviderLogin(
                subject: state.script.subject, sessionID: RandomToken.make(),
                contextClass: requested, authenticatedAt: now, parameters: parameters)
            state.codes[code] = IssuedCode(
                login: state.logins.count, expiresAt: now.addingTimeInterval(60))
            state.logins.append(login)
            state.issued.append(code)
        }
        return code
    }

    // MARK: - Grants

    /// The tokens for a code, once (RFC 6749 §4.1.3, RFC 7636 §4.6). A second use revokes them (§4.1.2).
    func redeem(code: String, redirectURI: String?, verifier: String) throws -> RawObject? {
        try state.withLock { state in
            guard let issued = state.codes[code], state.logins.indices.contains(issued.login) else { return nil }
            let parameters = state.logins[issued.login].parameters
            guard !issued.isSpent else {
                if let refreshToken = issued.refreshToken { _ = state.refreshTokens.revoke(refreshToken) }
                state.accessTokens = state.accessTokens.filter { $0.value.login != issued.login }
                return nil
            }
            state.codes[code]?.isSpent = true
            guard now < issued.expiresAt, redirectURI == parameters["redirect_uri"],
                Base64URL.encode(SHA256.hash(data: Array(verifier.utf8))) == parameters["code_challenge"]
            else { return nil }
            let refreshToken = state.refreshTokens.issue(to: String(issued.login), now: now)
            state.codes[code]?.refreshToken = refreshToken
            return try respond(&state, login: issued.login, refreshToken: refreshToken)
        }
    }

    enum Refresh {
        case refreshed(RawObject)
        case reused, rejected
    }

    /// The tokens for a refresh token (RFC 6749 §6).
    func refresh(_ token: String) throws -> Refresh {
        try state.withLock { state in
            switch state.refreshTokens.rotate(token, now: now) {
            case .rotated(let successor, let account):
                guard let login = Int(account), state.logins.indices.contains(login) else { return .rejected }
                return .refreshed(try respond(&state, login: login, refreshToken: successor))
            case .reused: return .reused
            case .rejected: return .rejected
            }
        }
    }

    /// The response to a token exchange (RFC 8693 §2.2.1); `nil` if the subject token is not active.
    func exchange(_ token: String, audience: String, scope: String?) throws -> RawObject? {
        try state.withLock { state in
            guard let login = activeLogin(of: token, in: state) else { return nil }
            let accessToken = try makeAccessToken(&state, login: login, audience: audience, scope: scope ?? "")
            return RawObject([
                ("access_token", RawJSON.string(accessToken)),
                ("issued_token_type", #""urn:ietf:params:oauth:token-type:access_token""#),
                ("token_type", #""Bearer""#), ("expires_in", String(settings.accessTokenLifetime.components.seconds)),
            ]).applying(state.script.tokenResponse)
        }
    }

    /// Revokes an access token, or the family of a refresh token (RFC 7009 §2.1).
    func revoke(_ token: String) {
        state.withLock { state in
            state.accessTokens[token] = nil
            _ = state.refreshTokens.revoke(token)
        }
    }

    /// The userinfo document of an access token (OpenID Connect Core §5.3.2); `nil` if the token is not active.
    func userInfo(_ token: String) -> RawObject? {
        state.withLock { state in
            guard let login = activeLogin(of: token, in: state) else { return nil }
            let subject = [("sub", RawJSON.string(state.logins[login].subject))]
            return RawObject(subject + state.script.claims.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
        }
    }

    // MARK: - Keys and tokens

    func keySet() throws -> String {
        try state.withLock { try $0.forge.keySet() }
    }

    func rotateKeys(keepsOld: Bool) throws {
        try state.withLock { try $0.forge.rotate(keepsOld: keepsOld) }
    }

    /// A logout token (OpenID Connect Back-Channel Logout §2.4).
    func logoutToken(subject: String?, sessionID: String?) throws -> String {
        try state.withLock { state in
            let now = now
            var claims = RawObject([
                ("iss", RawJSON.string(state.issuer)), ("aud", RawJSON.string(settings.clientID)),
                ("iat", RawJSON.seconds(now)), ("exp", RawJSON.seconds(now.addingTimeInterval(120))),
                ("jti", RawJSON.string(RandomToken.make())),
                ("events", #"{"http://schemas.openid.net/event/backchannel-logout":{}}"#),
            ])
            claims["sub"] = subject.map(RawJSON.string)
            claims["sid"] = sessionID.map(RawJSON.string)
            let token = try state.forge.token(type: "logout+jwt", claims, state.script.logoutToken, now: now)
            state.issued.append(token)
            return token
        }
    }

    /// The response of the token endpoint (RFC 6749 §5.1, OpenID Connect Core §3.1.3.3).
    private func respond(_ state: inout sending State, login index: Int, refreshToken: String) throws -> RawObject {
        let scope = state.logins[index].parameters["scope"] ?? "openid"
        let accessToken = try makeAccessToken(&state, login: index, audience: "https://api.example.com", scope: scope)
        let response = RawObject([
            ("access_token", RawJSON.string(accessToken)), ("token_type", #""Bearer""#),
            ("expires_in", String(settings.accessTokenLifetime.components.seconds)),
            ("refresh_token", RawJSON.string(refreshToken)), ("scope", RawJSON.string(scope)),
            ("id_token", RawJSON.string(try makeIDToken(&state, login: index, accessToken: accessToken))),
        ])
        state.issued.append(refreshToken)
        return response.applying(state.script.tokenResponse)
    }

    /// An ID token (OpenID Connect Core §2). Those of refreshes have the nonce of the sign-in (§12.2).
    private func makeIDToken(_ state: inout sending State, login index: Int, accessToken: String) throws -> String {
        let (login, now) = (state.logins[index], now)
        var claims = RawObject([
            ("iss", RawJSON.string(state.issuer)), ("sub", RawJSON.string(login.subject)),
            ("aud", RawJSON.string(settings.clientID)), ("iat", RawJSON.seconds(now)),
            ("exp", RawJSON.seconds(now.addingTimeInterval(300))),
            ("auth_time", RawJSON.seconds(login.authenticatedAt)), ("sid", RawJSON.string(login.sessionID)),
        ])
        claims["nonce"] = login.parameters["nonce"].map(RawJSON.string)
        claims["acr"] = login.contextClass.map(RawJSON.string)
        claims["at_hash"] = state.forge.current.accessTokenHash(accessToken).map(RawJSON.string)
        for (name, value) in state.script.claims.sorted(by: { $0.key < $1.key }) { claims[name] = value }
        let token = try state.forge.token(type: "JWT", claims, state.script.idToken, now: now)
        state.issued.append(token)
        return token
    }

    /// An access token (RFC 9068 §2).
    private func makeAccessToken(
        _ state: inout sending State, login index: Int, audience: String, scope: String
    ) throws -> String {
        let now = now
        let expiresAt = now.addingTimeInterval(settings.accessTokenLifetime.inSeconds)
        let claims = RawObject([
            ("iss", RawJSON.string(state.issuer)), ("sub", RawJSON.string(state.logins[index].subject)),
            ("aud", RawJSON.string(audience)), ("client_id", RawJSON.string(settings.clientID)),
            ("iat", RawJSON.seconds(now)), ("exp", RawJSON.seconds(expiresAt)),
            ("jti", RawJSON.string(RandomToken.make())), ("scope", RawJSON.string(scope)),
        ])
        let token = try state.forge.token(type: "at+jwt", claims, state.script.accessToken, now: now)
        state.accessTokens[token] = IssuedAccessToken(login: index, expiresAt: expiresAt)
        state.issued.append(token)
        return token
    }

    private func activeLogin(of token: String, in state: State) -> Int? {
        guard let issued = state.accessTokens[token], now < issued.expiresAt else { return nil }
        return issued.login
    }
}

private struct IssuedCode {
    /// The index of the login.
    let login: Int
    let expiresAt: Date
    var isSpent = false
    var refreshToken: String?
}

private struct IssuedAccessToken {
    /// The index of the login.
    let login: Int
    let expiresAt: Date
}
