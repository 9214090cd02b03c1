import CloakroomCore
import Synchronization
import TestSupport

/// Sessions in a dictionary, with load results that a test chooses.
final class FakeSessions: SessionAccess {
    /// The result of ``load(_:now:)``.
    enum Load: Sendable {
        case response(SessionLookup)
        case fail
        /// The result once the gate is open.
        case wait(Gate, SessionLookup)
    }

    private struct State {
        var sessions: [SessionTicket: Session] = [:]
        var load: Load?
        var loads = 0
        var uses = 0
        var changes: UInt64 = 0
    }

    private let state = Mutex(State())

    /// A store with the session of ``Ask/cookie``.
    init() { add((Ask.ticket, Self.make().1)) }

    /// A store whose cache is empty, so that every session has to be loaded.
    init(load: Load) {
        state.withLock { $0.load = load }
    }

    /// The number of calls of ``load(_:now:)``.
    var loads: Int { state.withLock { $0.loads } }
    /// The number of lookups that count as a use of a session.
    var uses: Int { state.withLock { $0.uses } }

    /// Adds a session.
    /// - Returns: Its `Cookie` line.
    func add(authorization: String = "Bearer \(Canary.accessToken)") -> String {
        add(Self.make(authorization))
    }

    /// Adds a session that was created elsewhere, and replaces one with the same ticket.
    @discardableResult
    func add(_ made: (SessionTicket, Session)) -> String {
        state.withLock { $0.sessions[made.0] = made.1 }
        return Self.cookie(made.0)
    }

    /// Removes all sessions; from then on sessions have to be loaded.
    func forget(load: Load) {
        state.withLock { state in
            state.sessions = [:]
            state.load = load
        }
    }

    /// The `Cookie` line of a ticket.
    static func cookie(_ ticket: SessionTicket) -> String { "Cookie: __Host-cloakroom=\(ticket.cookieValue)" }

    /// A session that is in no store.
    /// - Parameters:
    ///   - accessExpiresAt: The expiry of its access token.
    ///   - endsAt: The latest end of the session itself.
    static func make(
        _ authorization: String = "Bearer \(Canary.accessToken)", refreshToken: String? = nil,
        accessTokenExpiresAt: WallTime? = nil, obtainedAt: WallTime = WallTime(seconds: 0),
        source: SessionSource = SessionSource(upstream: "api"),
        endsAt: SessionTime = SessionTime(milliseconds: .max), version: UInt64 = 1,
        account: AccountName = AccountName(email: "jo@example.com"), device: DeviceBinding? = nil,
        app: String? = nil
    ) -> (SessionTicket, Session) {
        var generator = SystemRandomNumberGenerator()
        let session = Session(
            key: SessionKey(generator.next(), generator.next(), generator.next(), generator.next()),
            user: UserProfile(json: [], account: account),
            tokens: TokenSet(
                authorization: Secret(authorization), refreshToken: refreshToken.map { Secret($0) },
                accessTokenExpiresAt: accessTokenExpiresAt, obtainedAt: obtainedAt),
            client: SessionClientInfo(app: app), source: source, device: device, createdAt: SessionTime(seconds: 0),
            expiresAt: endsAt, lastUsedAt: SessionTime(seconds: 0), version: version)
        return (SessionTicket(using: &generator), session)
    }

    /// A `Cookie` line with the ticket of no session.
    static var strangeCookie: String {
        "Cookie: __Host-cloakroom=\(make().0.cookieValue)"
    }

    func isUseDue(of session: Session, now: SessionTime) -> Bool { true }

    func recordUse(of session: Session, now: SessionTime) { state.withLock { $0.uses += 1 } }

    func lookup(
        _ ticket: SessionTicket, key: inout SessionKey?, now: SessionTime, slides: Bool
    ) -> SessionLookup {
        state.withLock { state in
            if slides, state.sessions[ticket]?.device == nil { state.uses += 1 }
            if let session = state.sessions[ticket] { return .active(session) }
            return state.load == nil ? .missing(.noSession) : .notCached
        }
    }

    func load(_ ticket: SessionTicket, now: SessionTime) async throws(SessionStoreError) -> SessionLookup {
        let (load, session) = state.withLock { state in
            state.loads += 1
            return (state.load, state.sessions[ticket])
        }
        if let session { return .active(session) }
        switch load {
        case .response(let lookup): return lookup
        case .wait(let gate, let lookup):
            await gate.passed()
            return lookup
        case .fail: throw SessionStoreError(.unavailable)
        case nil: return .missing(.noSession)
        }
    }

    func end(
        _ ticket: SessionTicket, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> Session? {
        state.withLock { state in
            state.changes += 1
            return state.sessions.removeValue(forKey: ticket)
        }
    }

    var changeCount: UInt64 { state.withLock(\.changes) }
}
