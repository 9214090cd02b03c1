import CloakroomCore
import Synchronization

/// Sessions in a dictionary, with answers that a test chooses.
final class FakeSessions: SessionStore {
    /// What ``load(_:now:)`` does.
    enum Load: Sendable {
        case answer(SessionLookup)
        case fail
    }

    private struct State {
        var sessions: [SessionTicket: Session] = [:]
        var load: Load?
        var loads = 0
    }

    private let state = Mutex(State())

    init() {}

    /// A store whose table knows nothing and which has to be asked.
    init(load: Load) {
        state.withLock { $0.load = load }
    }

    /// How often ``load(_:now:)`` was called.
    var loads: Int { state.withLock { $0.loads } }
    var count: Int { state.withLock { $0.sessions.count } }

    /// Adds a session.
    /// - Returns: The `Cookie` line that belongs to it.
    func add(authorization: String = "Bearer \(Canary.accessToken)") -> String {
        let (ticket, session) = Self.make(authorization)
        state.withLock { $0.sessions[ticket] = session }
        return "Cookie: __Host-cloakroom=\(ticket.cookieValue)"
    }

    /// A session that is in no store.
    static func make(_ authorization: String = "Bearer \(Canary.accessToken)") -> (SessionTicket, Session) {
        var generator = SystemRandomNumberGenerator()
        let session = Session(
            key: SessionKey(generator.next(), generator.next(), generator.next(), generator.next()),
            user: UserProfile(json: [], accountHash: 1), tokens: SessionTokens(authorization: Secret(authorization)),
            createdAt: Timestamp(seconds: 0), expiresAt: Timestamp(milliseconds: .max),
            lastUsedAt: Timestamp(seconds: 0), logHash: 0xfeed)
        return (SessionTicket(using: &generator), session)
    }

    /// A `Cookie` line with a ticket that belongs to no session.
    static var strangeCookie: String {
        "Cookie: __Host-cloakroom=\(make().0.cookieValue)"
    }

    func find(_ ticket: SessionTicket, now: Timestamp, slides: Bool) -> SessionLookup {
        state.withLock { state in
            if let session = state.sessions[ticket] { return .live(session) }
            return state.load == nil ? .none(.noSession) : .unknown
        }
    }

    func load(_ ticket: SessionTicket, now: Timestamp) async throws(SessionStoreError) -> SessionLookup {
        let load = state.withLock { state in
            state.loads += 1
            return state.load
        }
        switch load {
        case .answer(let lookup): return lookup
        case .fail: throw SessionStoreError(.unavailable)
        case nil: return .none(.noSession)
        }
    }

    func create(
        _ user: UserProfile, tokens: SessionTokens, now: Timestamp
    ) async throws(SessionStoreError) -> (SessionTicket, Session) {
        throw SessionStoreError(.full)
    }

    func end(
        _ ticket: SessionTicket, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> Session? {
        state.withLock { $0.sessions.removeValue(forKey: ticket) }
    }
}
