import CloakroomCore
import Synchronization

/// A store in memory that fails where it is told to. It keeps the rules of ``SessionStore`` and no timeouts but the
/// absolute one.
final class ScriptedStore: SessionStore {
    enum Operation: Hashable, Sendable {
        case create, load, end, list, endAll, lease, save, reject, throttle
    }

    private struct State {
        var sessions: [SessionTicket: Session] = [:]
        var ended: [SessionTicket: SessionEndReason] = [:]
        var leases: [SessionKey: (lease: RenewalLease, end: Timestamp)] = [:]
        var fences: [SessionKey: UInt64] = [:]
        var throttle: [ThrottleKey: ThrottleState] = [:]
        var lifetimes: [Duration] = []
        var failures: [Operation: SessionStoreError.Kind] = [:]
        var isRemote = false
        /// Whether sessions that are ended by their names stay closed.
        var isSealed = false
        /// How many changes of throttle states are lost to somebody else from now on.
        var lostThrottleChanges: [ThrottleKey.Scope: Int] = [:]
    }

    private let state = Mutex(State())
    private let journal: Journal

    init(_ journal: Journal) { self.journal = journal }

    var count: Int { state.withLock { $0.sessions.count } }
    var isAvailable: Bool { state.withLock { $0.failures.isEmpty } }

    func run() async {}

    /// Lets an operation fail from now on.
    func fail(_ operation: Operation, _ kind: SessionStoreError.Kind) {
        state.withLock { $0.failures[operation] = kind }
    }

    /// Lets an operation succeed again.
    func recover(_ operation: Operation) {
        state.withLock { $0.failures[operation] = nil }
    }

    /// From now on sessions open with their tickets only.
    func seal() { state.withLock { $0.isSealed = true } }

    /// From now on the local table cannot tell.
    func becomeRemote() { state.withLock { $0.isRemote = true } }

    /// The next changes of throttle states come too late.
    func loseThrottleChanges(_ count: Int, _ scope: ThrottleKey.Scope) {
        state.withLock { $0.lostThrottleChanges[scope] = count }
    }

    /// What is kept for the throttle.
    var throttleStates: [ThrottleKey: ThrottleState] { state.withLock { $0.throttle } }
    /// How long the states were to be kept, in the order of the changes.
    var throttleLifetimes: [Duration] { state.withLock { $0.lifetimes } }

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

    func reload(_ ticket: SessionTicket, now: Timestamp) async throws(SessionStoreError) -> SessionLookup {
        try await load(ticket, now: now)
    }

    func create(
        _ new: NewSession, now: Timestamp
    ) async throws(SessionStoreError) -> (SessionTicket, Session) {
        try check(.create)
        var generator = SystemRandomNumberGenerator()
        let ticket = SessionTicket(using: &generator)
        let session = Session(
            key: SessionKey(generator.next(), 0, 0, 0), user: new.user, tokens: new.tokens, client: new.client,
            source: new.source, createdAt: now, expiresAt: now + .seconds(8 * 3_600), lastUsedAt: now)
        state.withLock { $0.sessions[ticket] = session }
        journal.note("create")
        return (ticket, session)
    }

    func end(
        _ ticket: SessionTicket, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> Session? {
        try check(.end)
        return end(reason) { $0 == ticket && $1.expiresAt > now }.first
    }

    // MARK: - The sessions of an account

    func sessions(of account: AccountName, now: Timestamp) async throws(SessionStoreError) -> [SessionSummary] {
        try check(.list)
        return state.withLock { state in
            state.sessions.values.filter { $0.user.account == account && $0.expiresAt > now }
                .sorted { ($0.createdAt, $0.id.value) > ($1.createdAt, $1.id.value) }.map(\.summary)
        }
    }

    func take(
        _ id: SessionID, of account: AccountName?, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> EndedSession? {
        try check(.end)
        return end(reason) { $1.id == id && (account == nil || $1.user.account == account) && $1.expiresAt > now }
            .first.map(ended)
    }

    func takeAll(
        of account: AccountName, but kept: SessionID?, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> [EndedSession] {
        try check(.endAll)
        return end(reason) {
            ($1.user.account == account || $1.user.name == account) && $1.id != kept && $1.expiresAt > now
        }.map(ended)
    }

    private func ended(_ session: Session) -> EndedSession {
        EndedSession(id: session.id, opened: state.withLock(\.isSealed) ? nil : session)
    }

    // MARK: - Renewal

    func lease(
        _ key: SessionKey, for duration: Duration, now: Timestamp
    ) async throws(SessionStoreError) -> LeaseAttempt {
        try check(.lease)
        return state.withLock { state in
            guard state.sessions.values.contains(where: { $0.key == key }) else { return .gone }
            if let held = state.leases[key], held.end > now { return .taken }
            let lease = RenewalLease(fence: state.fences[key, default: 0] + 1)
            state.fences[key] = lease.fence
            state.leases[key] = (lease, now + duration)
            return .held(lease)
        }
    }

    func save(
        _ renewal: SessionRenewal, ticket: SessionTicket, over session: Session, under lease: RenewalLease,
        now: Timestamp
    ) async throws(SessionStoreError) -> SaveAttempt {
        try check(.save)
        return state.withLock { state in
            guard let current = state.sessions[ticket] else { return .gone }
            guard state.fences[session.key] == lease.fence else { return .fenced }
            guard current.version == session.version else { return .changed }
            let renewed = current.renewed(with: renewal)
            state.sessions[ticket] = renewed
            return .saved(renewed)
        }
    }

    func reject(
        _ session: Session, under lease: RenewalLease, now: Timestamp
    ) async throws(SessionStoreError) -> RejectAttempt {
        try check(.reject)
        let isCurrent: Bool? = state.withLock { state in
            state.sessions.values.first { $0.key == session.key }.map {
                $0.version == session.version && state.fences[session.key] == lease.fence
            }
        }
        guard let isCurrent else { return .gone }
        guard isCurrent else { return .changed }
        return end(.refreshRejected) { $1.key == session.key }.isEmpty ? .gone : .ended
    }

    func release(_ lease: RenewalLease, of key: SessionKey) async {
        state.withLock { state in
            if state.leases[key]?.lease == lease { state.leases[key] = nil }
        }
    }

    // MARK: - Throttle

    func throttleStates(_ keys: [ThrottleKey], now: Timestamp) async throws(SessionStoreError) -> [ThrottleState?] {
        try check(.throttle)
        return state.withLock { state in keys.map { state.throttle[$0] } }
    }

    func replaceThrottleState(
        _ key: ThrottleKey, _ old: ThrottleState?, with new: ThrottleState?, lifetime: Duration, now: Timestamp
    ) async throws(SessionStoreError) -> Bool {
        try check(.throttle)
        return state.withLock { state in
            if let left = state.lostThrottleChanges[key.scope], left > 0 {
                state.lostThrottleChanges[key.scope] = left - 1
                return false
            }
            guard state.throttle[key] == old else { return false }
            state.throttle[key] = new
            if new != nil { state.lifetimes.append(lifetime) }
            return true
        }
    }

    // MARK: -

    private func check(_ operation: Operation) throws(SessionStoreError) {
        let failure = state.withLock { $0.failures[operation] }
        if let failure { throw SessionStoreError(failure) }
    }

    /// Ends all that the condition holds for.
    private func end(_ reason: SessionEndReason, where condition: (SessionTicket, Session) -> Bool) -> [Session] {
        let ended = state.withLock { state in
            let ended = state.sessions.filter { condition($0.key, $0.value) }
            for ticket in ended.keys {
                state.sessions[ticket] = nil
                state.ended[ticket] = reason
            }
            return Array(ended.values)
        }
        for _ in ended { journal.note("end \(reason.rawValue)") }
        return ended
    }

    private static func look(_ ticket: SessionTicket, _ state: State, _ now: Timestamp) -> SessionLookup {
        if let session = state.sessions[ticket] {
            return now < session.expiresAt ? .live(session) : .none(.expiredAbsolute)
        }
        return .none(state.ended[ticket]?.unauthorizedReason ?? .noSession)
    }
}
