import Foundation
import Synchronization

@testable import CloakroomCore

/// A provider that users of the gateway under test sign in at, and sessions of it.
enum Company {
    static let identity = IdentityConfiguration(
        name: "company", issuer: "https://id.example.com",
        client: IdentityClientConfiguration(id: "cloakroom", authentication: .basic(Secret("client-secret"))),
        tokensFor: [0])

    /// A session and its ticket.
    /// - Parameters:
    ///   - age: The seconds since the authentication; `nil` for unknown.
    ///   - accessEnds: When the access token expires.
    static func session(
        of identity: IdentityConfiguration = identity, token: String = Canary.accessToken,
        claims: String = #"{"groups":["staff"]}"#, acr: String? = "mfa", age: Int64? = 60,
        accessEnds: WallTime? = nil
    ) -> (SessionTicket, Session) {
        var generator = SystemRandomNumberGenerator()
        let now = WallTime(milliseconds: Int64(Date.now.timeIntervalSince1970 * 1_000))
        let provenance = SessionProvenance(
            identity: identity.name, issuer: identity.issuer, subject: "user-1",
            authenticatedAt: age.map { now - .seconds($0) }, acr: acr, nonceHash: [], claims: Array(claims.utf8))
        let session = Session(
            key: SessionKey(generator.next(), generator.next(), generator.next(), generator.next()),
            user: UserProfile(json: Array("{}".utf8), account: provenance.account),
            tokens: TokenSet(
                authorization: Secret("Bearer \(token)"), refreshToken: accessEnds.map { _ in Secret("refresh") },
                accessTokenExpiresAt: accessEnds, obtainedAt: now - .seconds(600)),
            source: identity.source, provenance: provenance, createdAt: SessionTime(seconds: 0),
            expiresAt: SessionTime(milliseconds: .max), lastUsedAt: SessionTime(seconds: 0))
        return (SessionTicket(using: &generator), session)
    }

    /// The session of a client without a cookie.
    static let client = session(token: "of-the-client").1

    static let user = session(token: "of-the-session")

    /// The access token of these sessions has expired.
    static let longAgo = WallTime(seconds: 1)
}

extension GatewayConfiguration {
    /// Adds ``Company``. Users may sign in at it, and with credentials.
    mutating func addCompany(_ adjust: (inout IdentityConfiguration) -> Void = { _ in }) {
        var identity = Company.identity
        adjust(&identity)
        identities = [identity]
        accounts.identities = [.provider(0), .upstream(0)]
        accounts.publicURL = "https://gateway.test"
    }

    /// Changes the route `private`.
    mutating func changePrivate(_ adjust: (inout Route) -> Void) { adjust(&routes[2]) }
}

/// A suite of requests to the route `private`: of ``Company/client`` with a token, and of ``Company/user``.
protocol RouteCredentialsSuite {
    static var tokens: [String: Session] { get }
}

extension RouteCredentialsSuite {
    static var cookie: String { FakeSessions.cookie(Company.user.0) }
    static var ofClient: Scenario.Expectation { .init(has: ["Authorization: Bearer of-the-client"]) }
    static var ofSession: Scenario.Expectation { .init(has: ["Authorization: Bearer of-the-session"]) }

    static func ask(_ fields: String...) -> String { Ask.ask("GET", "/private/a", fields) }

    static func setup(
        _ credentials: RouteCredentials, change: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        let setup = GatewaySetup.serving.with(\.tokens, FakeTokens(tokens)).configuration {
            $0.addCompany()
            $0.changePrivate { $0.credentials = credentials }
            change(&$0)
        }
        setup.sessions.add(Company.user)
        return setup
    }
}

/// Records exchanges and returns the outcome that a test chooses.
final class FakeExchanger: TokenExchanging {
    /// An exchange that was requested.
    struct Call: Sendable, Equatable {
        var session: SessionID
        var version: UInt64
        var upstream: Int
    }

    private let outcome: @Sendable (Session) async -> ExchangeOutcome
    private let state = Mutex<(calls: [Call], cached: Secret?, dropped: [Secret])>(([], nil, []))

    init(
        _ outcome: @escaping @Sendable (Session) async -> ExchangeOutcome = { _ in .active(Secret("Bearer exchanged")) }
    ) {
        self.outcome = outcome
    }

    /// Whether a token was dropped a moment ago, so that no other one is.
    let hasJustDropped = Atomic(false)

    var calls: [Call] { state.withLock { $0.calls } }
    /// The tokens that were dropped, as text.
    var dropped: [String] { state.withLock { $0.dropped.map { String(decoding: $0.bytes, as: UTF8.self) } } }

    func cache(_ token: String) { state.withLock { $0.cached = Secret("Bearer \(token)") } }

    func cached(_ session: Session, upstream: Int, now: WallTime) -> Secret? { state.withLock { $0.cached } }

    func exchange(
        _ session: Session, ticket: SessionTicket?, upstream: Int, traceparent: String?
    ) async -> ExchangeOutcome {
        state.withLock { $0.calls.append(Call(session: session.id, version: session.version, upstream: upstream)) }
        return await outcome(session)
    }

    func drop(_ token: Secret, of session: Session, upstream: Int) -> Bool {
        guard !hasJustDropped.load(ordering: .relaxed) else { return false }
        state.withLock { state in
            state.dropped.append(token)
            state.cached = nil
        }
        return true
    }
}

/// Verifies access tokens by their text: those in the table are valid, and each other one is rejected.
final class FakeTokens: AccessTokenVerifying {
    private let sessions: [String: Session]
    private let known = Mutex<[String: RefreshOutcome]>([:])
    private let fields = Mutex<[String]>([])
    private let proofs = Mutex<[TokenProof?]>([])
    private let provider = Mutex<(isDue: Bool, response: SessionLookup?, questions: Int)>((false, nil, 0))
    /// Whether tokens that are not known get 429.
    let isLimited = Atomic(false)

    init(_ sessions: [String: Session]) { self.sessions = sessions }

    /// The values of `Authorization` that were verified, in order.
    var verified: [String] { fields.withLock { $0 } }

    /// The proofs that came with them.
    var presented: [TokenProof?] { proofs.withLock { $0 } }

    /// How often the provider was asked again about the token of a long-lived response.
    var questions: Int { provider.withLock { $0.questions } }

    /// Makes the provider be asked again about the tokens of long-lived responses, except about a session that is its
    /// response.
    /// - Parameter response: What it responds from now on; `nil` if it does not respond.
    func ask(_ response: SessionLookup?) { provider.withLock { ($0.isDue, $0.response) = (true, response) } }

    func lookup(_ session: Session, now: WallTime) -> SessionLookup {
        provider.withLock { provider in
            if case .active(let latest)? = provider.response, latest === session { return .active(session) }
            return provider.isDue ? .notCached : .active(session)
        }
    }

    func load(_ session: Session, site: Int, from origin: AuditContext) async -> SessionLookup? {
        provider.withLock { provider in
            provider.questions += 1
            return provider.response
        }
    }

    func nonce(site: Int, now: WallTime) -> String? { "a-nonce" }

    func cached(_ field: Secret, site: Int, now: WallTime) -> RefreshOutcome? {
        known.withLock { $0[Self.text(field)] }
    }

    func cached(_ key: SessionKey, now: WallTime) -> RefreshOutcome? {
        known.withLock { known in
            known.values.first { if case .active(let session) = $0 { session.key == key } else { false } }
        }
    }

    func limited(_ field: Secret, site: Int, from peer: String) -> RefreshOutcome? {
        let isNew = known.withLock { $0[Self.text(field)] == nil }
        return isNew && isLimited.load(ordering: .relaxed) ? .failed(Problem(.rateLimited, retryAfter: 1)) : nil
    }

    func forget(_ field: Secret, _ session: Session, site: Int, now: WallTime) -> Bool {
        known.withLock { $0.removeValue(forKey: Self.text(field)) != nil }
    }

    /// A proof is valid unless its text is `stale`.
    func verify(
        _ field: Secret, proof: TokenProof?, site: Int, from origin: AuditContext
    ) async -> RefreshOutcome {
        let text = Self.text(field)
        proofs.withLock { $0.append(proof) }
        if proof?.text == Array("stale".utf8) { return .failed(Problem(.useNonce)) }
        fields.withLock { $0.append(text) }
        let isBasic = text.lowercased().hasPrefix("basic")
        let session = sessions[String(text.dropFirst(isBasic ? 6 : 7))]
        let failure = isBasic ? Problem(.unauthorized, reason: .invalidCredentials) : Problem(.invalidToken)
        let outcome = session.map { RefreshOutcome.active($0) } ?? .failed(failure)
        known.withLock { $0[text] = outcome }
        return outcome
    }

    private static func text(_ field: Secret) -> String { String(decoding: field.bytes, as: UTF8.self) }
}
