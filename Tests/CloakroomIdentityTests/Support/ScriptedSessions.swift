import CloakroomCore
import Synchronization

/// What store, client and observer were asked and told, in order.
final class Journal: Sendable {
    private let lines = Mutex<[String]>([])

    func note(_ line: String) { lines.withLock { $0.append(line) } }
    var all: [String] { lines.withLock { $0 } }
}

/// A store that fails where it is told to.
final class ScriptedStore: SessionStore {
    enum Operation: Hashable, Sendable {
        case create, load, end
    }

    private struct State {
        var sessions: [SessionTicket: Session] = [:]
        var ended: [SessionTicket: SessionEndReason] = [:]
        var failures: [Operation: SessionStoreError.Kind] = [:]
        var isRemote = false
    }

    private let state = Mutex(State())
    private let journal: Journal

    init(_ journal: Journal) { self.journal = journal }

    var count: Int { state.withLock { $0.sessions.count } }

    /// Lets an operation fail from now on.
    func fail(_ operation: Operation, _ kind: SessionStoreError.Kind) {
        state.withLock { $0.failures[operation] = kind }
    }

    /// From now on the local table cannot tell.
    func becomeRemote() { state.withLock { $0.isRemote = true } }

    func find(_ ticket: SessionTicket, now: Timestamp, slides: Bool) -> SessionLookup {
        state.withLock { state in
            guard !state.isRemote else { return .unknown }
            let lookup = Self.look(ticket, state, now)
            if slides, case .live(let session) = lookup { session.touch(at: now, granularity: .zero) }
            return lookup
        }
    }

    func load(_ ticket: SessionTicket, now: Timestamp) async throws(SessionStoreError) -> SessionLookup {
        try check(.load)
        return state.withLock { Self.look(ticket, $0, now) }
    }

    func create(
        _ user: UserProfile, tokens: SessionTokens, now: Timestamp
    ) async throws(SessionStoreError) -> (SessionTicket, Session) {
        try check(.create)
        var generator = SystemRandomNumberGenerator()
        let ticket = SessionTicket(using: &generator)
        let session = Session(
            key: SessionKey(generator.next(), 0, 0, 0), user: user, tokens: tokens, createdAt: now,
            expiresAt: now + .seconds(8 * 3_600), lastUsedAt: now, logHash: 42)
        state.withLock { $0.sessions[ticket] = session }
        journal.note("create")
        return (ticket, session)
    }

    func end(
        _ ticket: SessionTicket, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> Session? {
        try check(.end)
        let session = state.withLock { state in
            let session = state.sessions.removeValue(forKey: ticket)
            if session != nil { state.ended[ticket] = reason }
            return session
        }
        if session != nil { journal.note("end \(reason.rawValue)") }
        return session
    }

    private func check(_ operation: Operation) throws(SessionStoreError) {
        let failure = state.withLock { $0.failures[operation] }
        if let failure { throw SessionStoreError(failure) }
    }

    private static func look(_ ticket: SessionTicket, _ state: State, _ now: Timestamp) -> SessionLookup {
        if let session = state.sessions[ticket] {
            return now < session.expiresAt ? .live(session) : .none(.expiredAbsolute)
        }
        return .none(state.ended[ticket]?.unauthorizedReason ?? .noSession)
    }
}

/// A token client that answers what it is told to.
final class ScriptedClient: TokenClient {
    private struct State {
        var signIn: Result<SignedIn, TokenClientError>
        var revokeError: TokenClientError?
        var traceparents: [String?] = []
    }

    private let state: Mutex<State>
    private let journal: Journal

    init(_ journal: Journal, signIn: Result<SignedIn, TokenClientError>) {
        self.journal = journal
        state = Mutex(State(signIn: signIn))
    }

    var traceparents: [String?] { state.withLock { $0.traceparents } }

    func answer(_ result: Result<SignedIn, TokenClientError>) { state.withLock { $0.signIn = result } }
    func failRevoke(_ kind: TokenClientError.Kind) {
        state.withLock { $0.revokeError = TokenClientError(kind, in: .revoke) }
    }

    func signIn(
        _ credentials: Credentials, traceparent: String?, now: Timestamp
    ) async throws(TokenClientError) -> SignedIn {
        journal.note("signIn \(credentials.email)")
        let result = state.withLock { state in
            state.traceparents.append(traceparent)
            return state.signIn
        }
        return try result.get()
    }

    func revoke(_ tokens: SessionTokens, traceparent: String?) async throws(TokenClientError) {
        journal.note("revoke \(String(decoding: tokens.refreshToken?.bytes ?? [], as: UTF8.self))")
        let error = state.withLock { state in
            state.traceparents.append(traceparent)
            return state.revokeError
        }
        if let error { throw error }
    }
}

/// Writes down what it is told, without the durations.
final class RecordingObserver: AccountObserver {
    private let events = Mutex<[AccountEvent]>([])

    var all: [AccountEvent] {
        events.withLock { events in
            events.map { event in
                guard case .signIn(let outcome, let hash, _) = event else { return event }
                return .signIn(outcome: outcome, accountHash: hash, duration: .zero)
            }
        }
    }

    func accountEvent(_ event: AccountEvent, from origin: RequestOrigin) { events.withLock { $0.append(event) } }
}
