import CloakroomCore
import Synchronization

/// An in-memory store with scripted failures. It follows the rules of ``SessionStore`` and applies no timeout but the
/// absolute one.
final class ScriptedStore: SessionStore {
    enum Operation: Hashable, Sendable {
        case create, load, end, list, endAll, lease, save, reject, throttle, mark
    }

    private struct State {
        var sessions: [SessionTicket: Session] = [:]
        var ended: [SessionTicket: SessionEndReason] = [:]
        var leases: [SessionKey: (lease: RefreshLease, end: SessionTime)] = [:]
        var fences: [SessionKey: UInt64] = [:]
        var throttle: [ThrottleKey: ThrottleState] = [:]
        var lifetimes: [Duration] = []
        var listCount = 0
        var evictionCount = 0
        var marks: [MarkKey: (time: WallTime, end: SessionTime)] = [:]
        var failures: [Operation: SessionStoreError.Kind] = [:]
        var isRemote = false
        /// Whether the tokens of sessions that are ended by name stay sealed.
        var isSealed = false
        /// Whether an operation that ends all sessions fails after it has ended those that it finds.
        var failsAfterEnding = false
        /// The number of calls that count an attempt.
        var throttleCalls = 0
    }

    private let state = Mutex(State())
    private let journal: CallRecorder

    init(_ journal: CallRecorder) { self.journal = journal }

    /// The number of times that sessions were listed.
    var listCount: Int { state.withLock { $0.listCount } }
    /// The number of times that the oldest sessions of a user were to be ended.
    var evictionCount: Int { state.withLock { $0.evictionCount } }
    var count: Int { state.withLock { $0.sessions.count } }
    var isAvailable: Bool { state.withLock { $0.failures.isEmpty } }

    func run() async {}

    /// Makes an operation fail from now on.
    func fail(_ operation: Operation, _ kind: SessionStoreError.Kind) {
        state.withLock { $0.failures[operation] = kind }
    }

    /// Makes an operation that ends all sessions fail after it has ended those that it finds.
    func failAfterEnding() { state.withLock { $0.failsAfterEnding = true } }

    /// Makes an operation succeed again.
    func recover(_ operation: Operation) {
        state.withLock { $0.failures[operation] = nil }
    }

    /// From now on sessions can be opened with their tickets only.
    func seal() { state.withLock { $0.isSealed = true } }

    /// From now on no session is cached locally.
    func becomeRemote() { state.withLock { $0.isRemote = true } }

    /// The number of times that an attempt was to be counted.
    var throttleCalls: Int { state.withLock { $0.throttleCalls } }

    var throttleStates: [ThrottleKey: ThrottleState] { state.withLock { $0.throttle } }
    /// The lifetimes of the states, in the order of the changes.
    var throttleLifetimes: [Duration] { state.withLock { $0.lifetimes } }

    /// The session of a ticket; `nil` if there is none, or not locally.
    func active(_ ticket: SessionTicket, now: SessionTime) -> Session? {
        if case .active(let session) = lookup(ticket, now: now, slides: false) { session } else { nil }
    }

    func isUseDue(of session: Session, now: SessionTime) -> Bool { true }

    let changeCount: UInt64 = 0

    func lookup(
        _ ticket: SessionTicket, key: inout SessionKey?, now: SessionTime, slides: Bool
    ) -> SessionLookup {
        state.withLock { state in
            guard !state.isRemote else { return .notCached }
            let lookup = Self.lookup(ticket, state, now)
            if slides, case .active(let session) = lookup, session.device == nil {
                session.touch(at: now, granularity: .zero)
            }
            return lookup
        }
    }

    func recordUse(of session: Session, now: SessionTime) { session.touch(at: now, granularity: .zero) }

    func load(_ ticket: SessionTicket, now: SessionTime) async throws(SessionStoreError) -> SessionLookup {
        try check(.load)
        return state.withLock { Self.lookup(ticket, $0, now) }
    }

    func reload(_ ticket: SessionTicket, now: SessionTime) async throws(SessionStoreError) -> SessionLookup {
        try await load(ticket, now: now)
    }

    func create(
        _ new: NewSession, limit: Int, now: SessionTime
    ) async throws(SessionStoreError) -> (ticket: SessionTicket, session: Session, mayExceed: Bool) {
        try check(.create)
        var generator = SystemRandomNumberGenerator()
        let ticket = SessionTicket(using: &generator, site: new.site)
        let end = now + (new.terms?.absolute ?? .seconds(8 * 3_600))
        let session = Session(
            key: SessionKey(generator.next(), 0, 0, 0), user: new.user, tokens: new.tokens, client: new.client,
            source: new.source, provenance: new.provenance, terms: new.terms, createdAt: now,
            expiresAt: min(end, new.endsBy?.sessionTime ?? end), lastUsedAt: now)
        state.withLock { $0.sessions[ticket] = session }
        journal.note("create")
        return (ticket, session, sessions(of: new.user, now: now).count > limit)
    }

    func end(
        _ ticket: SessionTicket, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> Session? {
        try check(.end)
        return end(reason) { $0 == ticket && $1.expiresAt > now }.first
    }

    // MARK: - The sessions of an account

    func sessions(of account: AccountName, now: SessionTime) async throws(SessionStoreError) -> [SessionSummary] {
        state.withLock { $0.listCount += 1 }
        try check(.list)
        return state.withLock { state in
            state.sessions.values.filter { $0.user.account == account && $0.expiresAt > now }
                .sorted { ($0.createdAt, $0.id.value) > ($1.createdAt, $1.id.value) }.map(\.summary)
        }
    }

    func takeOldest(
        of user: UserProfile, over limit: Int, but new: SessionID, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> [EndedSession] {
        state.withLock { $0.evictionCount += 1 }
        try check(.end)
        let own = sessions(of: user, now: now)
        let oldest = own.filter { $0.id != new }.sorted { $0.createdAt < $1.createdAt }
            .prefix(max(0, own.count - limit))
        return oldest.flatMap { session in end(reason) { $1.id == session.id }.map(ended) }
    }

    private func sessions(of user: UserProfile, now: SessionTime) -> [Session] {
        state.withLock { state in
            state.sessions.values.filter {
                ($0.user.account == user.account || $0.user.account == user.name) && $0.expiresAt > now
            }
        }
    }

    func take(
        _ id: SessionID, of account: AccountName?, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> EndedSession? {
        try check(.end)
        return end(reason) { $1.id == id && (account == nil || $1.user.account == account) && $1.expiresAt > now }
            .first.map(ended)
    }

    func takeAll(
        _ selection: SessionSelection, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> [EndedSession] {
        try check(.endAll)
        let found = end(reason) { _, session in
            guard session.expiresAt > now else { return false }
            let hasName = { (name: AccountName) in session.user.account == name || session.user.name == name }
            return switch selection {
            case .account(let account, let kept): hasName(account) && session.id != kept
            case .created(let account, let time, let isNameless):
                hasName(account) && session.createdAt < time && !(isNameless && session.provenance?.session != nil)
            case .provider(let provider, let account):
                session.provenance?.session == provider && (account == nil || session.user.account == account)
            }
        }
        if case .created = selection { return found.map(ended) }
        return try all(found)
    }

    private func all(_ sessions: [Session]) throws(SessionStoreError) -> [EndedSession] {
        let ended = sessions.map(ended)
        if state.withLock(\.failsAfterEnding) { throw SessionStoreError(.unavailable).afterEnding(ended) }
        return ended
    }

    private func ended(_ session: Session) -> EndedSession {
        EndedSession(id: session.id, opened: state.withLock(\.isSealed) ? nil : session)
    }

    // MARK: - Token refresh

    func lease(
        _ key: SessionKey, for duration: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> LeaseResult {
        try check(.lease)
        return state.withLock { state in
            guard state.sessions.values.contains(where: { $0.key == key }) else { return .notFound }
            if let held = state.leases[key], held.end > now { return .heldByOther }
            let lease = RefreshLease(fence: state.fences[key, default: 0] + 1)
            state.fences[key] = lease.fencingToken
            state.leases[key] = (lease, now + duration)
            return .acquired(lease)
        }
    }

    func save(
        _ refresh: SessionUpdate, ticket: SessionTicket, over session: Session, under lease: RefreshLease,
        now: SessionTime
    ) async throws(SessionStoreError) -> SaveResult {
        try check(.save)
        return state.withLock { state in
            guard let current = state.sessions[ticket] else { return .notFound }
            guard state.fences[session.key] == lease.fencingToken else { return .staleLease }
            guard current.version == session.version else { return .versionConflict }
            let refreshed = current.refreshed(with: refresh)
            state.sessions[ticket] = refreshed
            return .saved(refreshed)
        }
    }

    func reject(
        _ session: Session, under lease: RefreshLease, now: SessionTime
    ) async throws(SessionStoreError) -> RejectResult {
        try check(.reject)
        let isCurrent: Bool? = state.withLock { state in
            state.sessions.values.first { $0.key == session.key }.map {
                $0.version == session.version && state.fences[session.key] == lease.fencingToken
            }
        }
        guard let isCurrent else { return .notFound }
        guard isCurrent else { return .versionConflict }
        return end(.refreshRejected) { $1.key == session.key }.isEmpty ? .notFound : .ended
    }

    func release(_ lease: RefreshLease, of key: SessionKey) async {
        state.withLock { state in
            if state.leases[key]?.lease == lease { state.leases[key] = nil }
        }
    }

    // MARK: - Throttle

    func throttleStates(_ keys: [ThrottleKey], now: SessionTime) async throws(SessionStoreError) -> [ThrottleState?] {
        try check(.throttle)
        return state.withLock { state in keys.map { state.throttle[$0] } }
    }

    func countAttempt(
        _ counters: [ThrottleCounter], now: SessionTime
    ) async throws(SessionStoreError) -> ThrottleResult {
        try check(.throttle)
        return state.withLock { state in
            state.throttleCalls += 1
            let result = ThrottleResult(counters, counters.map { state.throttle[$0.key] }, now: now)
            if case .counted(let counts) = result {
                for count in counts { state.throttle[count.counter.key] = count.after }
                state.lifetimes += counts.map(\.lifetime)
            }
            return result
        }
    }

    func removeAttempt(_ counts: [ThrottleCount], now: SessionTime) async throws(SessionStoreError) {
        try check(.throttle)
        state.withLock { state in
            for count in counts {
                let key = count.counter.key
                state.throttle[key] = count.removed(from: state.throttle[key], now: now)?.state
            }
        }
    }

    // MARK: - Marks

    func setMark(
        _ key: MarkKey, to time: WallTime, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        try check(.mark)
        return state.withLock { state in
            if let kept = state.marks[key], now < kept.end, kept.time >= time { return false }
            state.marks[key] = (time, now + lifetime)
            return true
        }
    }

    func latestMark(_ keys: [MarkKey], now: SessionTime) async throws(SessionStoreError) -> WallTime? {
        try check(.mark)
        return state.withLock { state in keys.compactMap { state.marks[$0] }.filter { now < $0.end }.map(\.time).max() }
    }

    // MARK: -

    private func check(_ operation: Operation) throws(SessionStoreError) {
        let failure = state.withLock { $0.failures[operation] }
        if let failure { throw SessionStoreError(failure) }
    }

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

    private static func lookup(_ ticket: SessionTicket, _ state: State, _ now: SessionTime) -> SessionLookup {
        if let session = state.sessions[ticket] {
            return now < session.expiresAt ? .active(session) : .missing(.expiredAbsolute)
        }
        return .missing(state.ended[ticket]?.unauthorizedReason ?? .noSession)
    }
}
