import CloakroomCore

/// A model of the store with the semantics of `SessionStore`. Its clock is the reference clock of the simulation.
struct ModelStore {
    struct Record {
        var session: Session
        var fence: UInt64 = 0
        /// The end of the lease; 0 for none.
        var leaseEnd: Int64 = 0
        var endReason: SessionEndReason?
        var endedAt: Int64 = 0
        var lastUse: Int64 = 0
        /// `nil` until a callback creates the session.
        var createdAt: Int64? = 0
    }

    enum Reseal { case done, changed, leased, gone }

    private(set) var records: [Record] = []
    private var marks: Set<[Int]> = []
    private let mutant: InjectedBug?
    private let forgetsLeases: Bool
    private let idle: Int64
    private let absolute: Int64

    init(_ settings: Settings, mutant: InjectedBug?) {
        self.mutant = mutant
        forgetsLeases = settings.forgetsLeases
        idle = settings.idle ?? .max / 2
        absolute = settings.absolute ?? .max / 2
    }

    mutating func insert(_ session: Session) {
        records.append(Record(session: session))
    }

    /// Whether a session is active; ends the session if it has expired.
    mutating func isAlive(_ index: Int, now: Int64) -> Bool {
        guard let createdAt = records[index].createdAt, records[index].endReason == nil else { return false }
        if now >= createdAt + absolute {
            end(index, .expiredAbsolute, now: now)
        } else if now >= records[index].lastUse + idle {
            end(index, .expiredIdle, now: now)
        }
        return records[index].endReason == nil
    }

    mutating func lease(_ index: Int, for duration: Duration, now: Int64) -> LeaseResult {
        guard isAlive(index, now: now) else { return .notFound }
        guard now >= records[index].leaseEnd || mutant == .noLease else { return .heldByOther }
        records[index].fence += 1
        records[index].leaseEnd = mutant == .endlessLease ? .max : now + duration.wholeMilliseconds
        return .acquired(RefreshLease(fence: records[index].fence))
    }

    mutating func read(_ index: Int, now: Int64) -> SessionLookup {
        guard isAlive(index, now: now) else {
            return .missing(records[index].endReason?.unauthorizedReason ?? .noSession)
        }
        return .active(records[index].session)
    }

    mutating func save(_ index: Int, _ refresh: SessionUpdate, over version: UInt64, fence: UInt64, now: Int64)
        -> SaveResult
    {
        guard isAlive(index, now: now) else { return .notFound }
        if mutant != .noFencing {
            guard fence == records[index].fence else { return .staleLease }
            if forgetsLeases, now >= records[index].leaseEnd { return .staleLease }
        }
        guard version == records[index].session.version || mutant == .noCompareAndSet else { return .versionConflict }
        records[index].session = refreshed(records[index].session, with: refresh)
        return .saved(records[index].session)
    }

    mutating func reject(_ index: Int, version: UInt64, fence: UInt64, now: Int64) -> RejectResult {
        guard isAlive(index, now: now) else { return .notFound }
        guard fence == records[index].fence || mutant == .noFencing else { return .versionConflict }
        guard version == records[index].session.version || mutant == .noCompareAndSet else { return .versionConflict }
        end(index, .refreshRejected, now: now)
        return .ended
    }

    mutating func release(_ index: Int, fence: UInt64) {
        if fence == records[index].fence { records[index].leaseEnd = 0 }
    }

    /// Writes the session that was read, sealed under a new secret: the same contents with the next version.
    mutating func reseal(_ index: Int, _ session: Session, now: Int64) -> Reseal {
        guard isAlive(index, now: now) else { return .gone }
        guard now >= records[index].leaseEnd else { return .leased }
        let version = records[index].session.version
        guard session.version == version || mutant == .noCompareAndSet else { return .changed }
        records[index].session = session.refreshed(with: SessionUpdate())
        return .done
    }

    mutating func touch(_ index: Int, at time: Int64) {
        records[index].lastUse = max(records[index].lastUse, time)
    }

    /// - Returns: Whether the session was active.
    @discardableResult
    mutating func end(_ index: Int, _ reason: SessionEndReason, now: Int64) -> Bool {
        guard records[index].createdAt != nil, records[index].endReason == nil else { return false }
        records[index].endReason = reason
        records[index].endedAt = now
        return true
    }
}

/// Sessions that are created during a run, and the provider's view of them.
extension ModelStore {
    /// Keeps a place for a session that does not exist yet.
    mutating func reserve(_ session: Session) {
        records.append(Record(session: session, createdAt: nil))
    }

    /// Creates a session in its place, once: a message that is delivered twice has no second effect.
    mutating func create(_ index: Int, _ session: Session, now: Int64) {
        guard records[index].createdAt == nil else { return }
        records[index].session = session
        records[index].createdAt = now
        records[index].lastUse = now
    }

    /// - Returns: The sessions that were ended.
    mutating func endSessions(of provider: ProviderSession, now: Int64) -> [Int] {
        records.indices.filter { index in
            records[index].session.provenance?.session == provider && isAlive(index, now: now)
                && end(index, .revoked, now: now)
        }
    }

    /// - Returns: Whether this call set the mark.
    mutating func setMark(_ mark: Mark, replica: Int) -> Bool { marks.insert(name(of: mark, replica)).inserted }

    func hasMark(_ mark: Mark, replica: Int) -> Bool { marks.contains(name(of: mark, replica)) }

    private func name(of mark: Mark, _ replica: Int) -> [Int] {
        mark.numbers + (mutant == .separateMarks ? [replica] : [])
    }

    private func refreshed(_ session: Session, with refresh: SessionUpdate) -> Session {
        let next = session.refreshed(with: refresh)
        guard mutant == .forgetsProvenance else { return next }
        return Session(
            key: next.key, user: next.user, tokens: next.tokens, createdAt: next.createdAt, expiresAt: next.expiresAt,
            lastUsedAt: next.lastUsedAt, version: next.version)
    }
}
