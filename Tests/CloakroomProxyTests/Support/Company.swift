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

    init(_ sessions: [String: Session]) { self.sessions = sessions }

    /// The values of `Authorization` that were verified, in order.
    var verified: [String] { fields.withLock { $0 } }

    func cached(_ field: Secret, site: Int, now: WallTime) -> RefreshOutcome? {
        known.withLock { $0[Self.text(field)] }
    }

    func verify(_ field: Secret, site: Int, from origin: AuditContext) async -> RefreshOutcome {
        let text = Self.text(field)
        fields.withLock { $0.append(text) }
        let session = sessions[String(text.dropFirst(7))]
        let outcome = session.map { RefreshOutcome.active($0) } ?? .failed(Problem(.invalidToken))
        known.withLock { $0[text] = outcome }
        return outcome
    }

    private static func text(_ field: Secret) -> String { String(decoding: field.bytes, as: UTF8.self) }
}
