import Foundation
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

/// A provider whose server handles each request by a script, with a clock that only the test advances.
struct ProviderFixture: Sendable {
    static let start = WallTime(seconds: 1_800_000_000)
    static let redirectURI = "https://app.example.com/auth/callback"
    static let accessToken = "canary-access-0123456789"
    static let refreshToken = "canary-refresh-0123456789"
    static let discovery = "GET /.well-known/openid-configuration"

    let server: ScriptedServer
    let issuer: String
    let provider: OpenIDProvider
    let key: ScriptedKey
    private let state: Recorded

    private final class Recorded: Sendable {
        let now = Mutex(ProviderFixture.start)
        let events = Mutex<[ProviderEvent]>([])
    }

    var now: WallTime { state.now.withLock { $0 } }
    var events: [ProviderEvent] { state.events.withLock { $0 } }

    func advance(by duration: Duration) { state.now.withLock { $0 = $0 + duration } }

    /// Runs a provider.
    /// - Parameters:
    ///   - change: Changes the configuration. The issuer of the server is set before.
    ///   - metadata: Members to replace, with `ISSUER` for the issuer; `nil` removes one.
    ///   - prepare: Scripts the server before the provider starts.
    ///   - isReady: Whether to wait for metadata and keys.
    static func run(
        change: (inout IdentityConfiguration) -> Void = { _ in }, metadata: [(String, String?)] = [],
        timeout: Duration = .seconds(10), key: ScriptedKey? = nil, isReady: Bool = true,
        prepare: (ScriptedServer, _ issuer: String) throws -> Void = { _, _ in },
        body: (ProviderFixture) async throws -> Void
    ) async throws {
        try await ScriptedServer.run { port, server in
            let issuer = "http://127.0.0.1:\(port)"
            let key = try key ?? ScriptedKey(.es256)
            server.respond(
                to: discovery, with: ScriptedServer.json(Self.metadata(issuer: issuer, metadata)))
            server.respond(to: "GET /jwks", with: Self.keySet([try key.jwk()]))
            try prepare(server, issuer)
            var configuration = IdentityConfiguration(
                name: "company", issuer: issuer,
                client: IdentityClientConfiguration(
                    id: "cloakroom", authentication: .basic(Secret("canary-client-secret"))))
            change(&configuration)
            let state = Recorded()
            let provider = try OpenIDProvider(
                configuration, timeouts: TimeoutsConfiguration(identity: timeout),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton, clock: { state.now.withLock { $0 } },
                report: { event in state.events.withLock { $0.append(event) } })
            let running = Task { await provider.run() }
            let fixture = ProviderFixture(
                server: server, issuer: issuer, provider: provider, key: key, state: state)
            try await stopping {
                running.cancel()
                await provider.shutdown()
            } after: {
                if isReady {
                    try await eventually("the keys of the provider") { await provider.status().keys == .fresh }
                }
                try await body(fixture)
            }
        }
    }

    private init(
        server: ScriptedServer, issuer: String, provider: OpenIDProvider, key: ScriptedKey, state: Recorded
    ) {
        self.server = server
        self.issuer = issuer
        self.provider = provider
        self.key = key
        self.state = state
    }

    // MARK: - Documents

    static func metadata(issuer: String, _ changes: [(String, String?)] = []) -> String {
        var members: [(String, String)] = [
            ("issuer", #""ISSUER""#), ("authorization_endpoint", #""ISSUER/authorize""#),
            ("token_endpoint", #""ISSUER/token""#), ("jwks_uri", #""ISSUER/jwks""#),
            ("userinfo_endpoint", #""ISSUER/userinfo""#), ("revocation_endpoint", #""ISSUER/revoke""#),
            ("end_session_endpoint", #""ISSUER/logout""#),
        ]
        for (name, value) in changes {
            members.removeAll { $0.0 == name }
            if let value { members.append((name, value)) }
        }
        return "{\(members.map { "\"\($0)\":\($1)" }.joined(separator: ","))}"
            .replacingOccurrences(of: "ISSUER", with: issuer)
    }

    static func keySet(_ keys: [String]) -> String {
        ScriptedServer.json(String(decoding: keySetDocument(keys), as: UTF8.self))
    }

    /// A response of the token endpoint. Each member is JSON; `nil` removes one.
    static func tokens(_ changes: [(String, String?)] = []) -> String {
        var members: [(String, String)] = [
            ("access_token", "\"\(accessToken)\""), ("refresh_token", "\"\(refreshToken)\""),
            ("token_type", #""Bearer""#), ("expires_in", "300"),
        ]
        for (name, value) in changes {
            members.removeAll { $0.0 == name }
            if let value { members.append((name, value)) }
        }
        return ScriptedServer.json("{\(members.map { "\"\($0)\":\($1)" }.joined(separator: ","))}")
    }

    /// An error of OAuth.
    static func error(_ code: String, status: String = "400 Bad") -> String {
        ScriptedServer.json(#"{"error":"\#(code)"}"#, status: status)
    }

    /// The claims of an ID token for ``login``.
    func claims(_ changes: [(String, String?)] = []) -> ScriptedClaims {
        var claims = ScriptedClaims(members: [
            ("iss", "\"\(issuer)\""), ("aud", #""cloakroom""#), ("sub", #""jo""#),
            ("exp", "\(now.milliseconds / 1_000 + 300)"), ("iat", "\(now.milliseconds / 1_000)"),
            ("nonce", "\"\(login.nonceText)\""), ("name", #""Jo""#),
        ])
        for (name, value) in changes { claims = claims.with(name, value) }
        return claims
    }

    /// An ID token, as a JSON string.
    func idToken(_ changes: [(String, String?)] = [], key other: ScriptedKey? = nil) throws -> String {
        let payload = String(decoding: claims(changes).payload, as: UTF8.self)
        return "\"\(String(decoding: try (other ?? key).token(payload), as: UTF8.self))\""
    }

    /// An access token for `orders`, of the client `batch`.
    /// - Parameter header: `nil` for one with the key's algorithm and id.
    func accessToken(
        _ changes: [(String, String?)] = [], key other: ScriptedKey? = nil, header: String? = nil
    ) throws -> String {
        let base: [(String, String?)] = [("aud", #""orders""#), ("client_id", #""batch""#), ("nonce", nil)]
        let payload = String(decoding: claims(base + changes).payload, as: UTF8.self)
        let key = other ?? key
        let usual = #"{"typ":"at+jwt","alg":"\#(key.algorithm.rawValue)","kid":"\#(key.id ?? "")"}"#
        return String(decoding: try key.token(payload, header: header ?? usual), as: UTF8.self)
    }

    /// A logout token for a session of `jo`.
    /// - Parameter header: As for ``accessToken(_:key:header:)``.
    func logoutToken(_ changes: [(String, String?)] = [], header: String? = nil) throws -> [UInt8] {
        let events = #"{"http://schemas.openid.net/event/backchannel-logout":{}}"#
        let base: [(String, String?)] = [
            ("nonce", nil), ("events", events), ("jti", #""j-1""#), ("sid", #""s-1""#),
        ]
        return try key.token(String(decoding: claims(base + changes).payload, as: UTF8.self), header: header)
    }

    // MARK: - Calls

    var secrets: LoginSecrets { LoginFixture.secrets(1) }

    var login: PendingLogin {
        LoginFixture.login(secrets, issuer: issuer, returnTarget: "/", startedAt: Self.start)
    }

    func redeem(needsAuthenticationTime: Bool = false) async throws(TokenClientError) -> ProviderSignIn {
        try await provider.redeem(
            code: Secret("canary-code"), login: login, redirectURI: Self.redirectURI,
            needsAuthenticationTime: needsAuthenticationTime, traceparent: nil, now: now)
    }

    /// Redeems a code for a response of the token endpoint, and returns the error.
    func rejection(of response: String, needsAuthenticationTime: Bool = false) async -> TokenClientError? {
        server.respond(to: "POST /token", with: response)
        return await thrown { () throws(TokenClientError) in
            try await redeem(needsAuthenticationTime: needsAuthenticationTime)
        }
    }

    /// Redeems a code for a response with an ID token, and returns the error.
    func rejection(ofIDToken token: String) async -> TokenClientError? {
        await rejection(of: Self.tokens([("id_token", token)]))
    }

    func authorizationURL(
        stepUp: AuthorizationRequest.StepUp? = nil, passed: [IdentityConfiguration.Parameter] = [],
        from address: String = "192.0.2.1"
    ) async throws(TokenClientError) -> String {
        try await provider.authorizationURL(
            secrets, redirectURI: Self.redirectURI, stepUp: stepUp, passed: passed, address: address, traceparent: nil)
    }

    /// A session of the user `jo`, whose tokens were issued at the start.
    func session(
        _ change: (inout SessionProvenance) -> Void = { _ in }, refreshToken: String? = Self.refreshToken
    ) -> Session {
        var provenance = SessionProvenance(
            identity: "company", issuer: issuer, subject: "jo",
            nonceHash: IDTokenRules.hash(Array(login.nonceText.utf8)), claims: Array(#"{"name":"Jo"}"#.utf8))
        change(&provenance)
        return Session(
            key: SessionKey(1, 2, 3, 4), user: UserProfile(json: Array("{}".utf8), account: provenance.account),
            tokens: TokenSet(
                authorization: Secret("Bearer \(Self.accessToken)"), refreshToken: refreshToken.map { Secret($0) },
                accessTokenExpiresAt: Self.start + .seconds(300), obtainedAt: Self.start),
            source: provider.source, provenance: provenance, createdAt: Self.start.sessionTime,
            expiresAt: Self.start.sessionTime + .seconds(28_800), lastUsedAt: Self.start.sessionTime)
    }

    func refresh(_ session: Session) async throws(TokenClientError) -> SessionUpdate {
        try await provider.refresh(session, traceparent: nil, now: now)
    }

    /// Refreshes a session with a response of the token endpoint, and returns the error.
    func refreshError(of response: String, _ session: Session? = nil) async -> TokenClientError? {
        server.respond(to: "POST /token", with: response)
        return await thrown { () throws(TokenClientError) in try await refresh(session ?? self.session()) }
    }

    /// Fetches what the provider states about the user of a session.
    func updatedUser(of session: Session) async throws(TokenClientError) -> SessionUpdate? {
        try await provider.updatedUser(of: session, replacing: session.tokens, traceparent: nil)
    }

    // MARK: - Responses

    /// Issues these tokens from now on.
    func issue(_ changes: [(String, String?)]) {
        server.respond(to: "POST /token", with: Self.tokens(changes))
    }

    /// Replaces the key by another one, which signs the ID token that is issued from now on.
    func rotate() throws {
        let next = try ScriptedKey(.es256, id: "key-2")
        server.respond(to: "GET /jwks", with: Self.keySet([try next.jwk()]))
        issue([("id_token", try idToken(key: next))])
    }

    // MARK: - Requests

    /// The requests for a method and a path.
    func requests(_ line: String) -> [String] { server.requests.filter { $0.hasPrefix(line + " ") } }
    var tokenRequests: [String] { requests("POST /token") }
}

extension IdentityConfiguration {
    /// Gives the provider another issuer than its address.
    mutating func moveIssuer(to other: String) {
        endpoints.base = WebOrigin(issuer)
        issuer = other
    }
}

extension String {
    /// The parameters of the form in a request, or of the query in a URL.
    var form: [String: String] {
        let text =
            range(of: "\r\n\r\n").map { self[$0.upperBound...] }
            ?? self[(firstIndex(of: "?") ?? startIndex)...].dropFirst()
        var form: [String: String] = [:]
        for pair in text.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map {
                $0.replacingOccurrences(of: "+", with: " ").removingPercentEncoding ?? ""
            }
            // A parameter that appears twice is visible as such.
            form[parts[0]] = form[parts[0]].map { $0 + " AND " + parts[1] } ?? parts[1]
        }
        return form
    }

    /// The value of a field of a request.
    func field(_ name: String) -> String? {
        for line in self[..<(range(of: "\r\n\r\n")?.lowerBound ?? endIndex)].components(separatedBy: "\r\n")
        where line.lowercased().hasPrefix(name.lowercased() + ":") {
            return line.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces)
        }
        return nil
    }
}
