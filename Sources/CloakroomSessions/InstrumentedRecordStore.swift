import CloakroomCore

/// An operation on a store outside the process, as metrics name it.
public enum SessionStoreOperation: String, Sendable, Hashable, CaseIterable {
    /// Insert a new session.
    case insert
    /// Read a session.
    case read
    /// Save the changes of a session.
    case replace
    /// Remove a session.
    case remove
    /// Record uses of sessions.
    case touch
    /// Acquire the lease for a refresh.
    case lease
    /// Release the lease.
    case release
    /// List the sessions of an account or of a session at a provider, or choose those in excess.
    case list
    /// Read the cutoffs of accounts and of sessions at providers.
    case cutoffRead = "cutoff_read"
    /// Set the cutoff of an account or of a session at a provider.
    case cutoffWrite = "cutoff_write"
    /// Read the state of the sign-in throttle.
    case throttleRead = "throttle_read"
    /// Change the state of the sign-in throttle.
    case throttleWrite = "throttle_write"
    /// Read timed marks.
    case markRead = "mark_read"
    /// Set a timed mark.
    case markWrite = "mark_write"
}

/// Measures the duration of each operation of another store, and whether it failed.
struct InstrumentedRecordStore<Records: SessionRecordStore>: SessionRecordStore {
    let records: Records
    /// Called on any thread with the reason of a failure; must not wait.
    var onFailure: @Sendable (SessionStoreOperation, SessionStoreError.Reason) -> Void = { _, _ in }
    /// Called on any thread; must not wait.
    let onOperation: @Sendable (SessionStoreOperation, _ isSuccess: Bool, _ nanoseconds: UInt64) -> Void
    private let clock = ContinuousClock()

    var count: Int { records.count }
    var isFailing: Bool { records.isFailing }

    func insert(_ record: SessionRecord, keepUntil: SessionTime, now: SessionTime) async throws(SessionStoreError)
        -> Bool
    {
        try await measured(.insert, await records.insert(record, keepUntil: keepUntil, now: now))
    }

    func read(_ id: SessionID, now: SessionTime) async throws(SessionStoreError) -> RecordLookup {
        try await measured(.read, await records.read(id, now: now))
    }

    func replace(
        _ record: SessionRecord, keepUntil: SessionTime, fence: UInt64?, now: SessionTime
    ) async throws(SessionStoreError) -> RecordUpdateResult {
        try await measured(.replace, await records.replace(record, keepUntil: keepUntil, fence: fence, now: now))
    }

    func remove(
        _ id: SessionID, reason: SessionEndReason, condition: (version: UInt64, fence: UInt64)?, now: SessionTime
    ) async throws(SessionStoreError) -> RecordRemovalResult {
        try await measured(.remove, await records.remove(id, reason: reason, condition: condition, now: now))
    }

    @discardableResult
    func touch(
        _ touches: [RecordTouch], granularity: Duration
    ) async throws(SessionStoreError) -> UnwrittenTouches? {
        try await measured(.touch, failure: { $0?.error }, await records.touch(touches, granularity: granularity))
    }

    func lease(_ id: SessionID, for duration: Duration, now: SessionTime) async throws(SessionStoreError) -> LeaseResult
    {
        try await measured(.lease, await records.lease(id, for: duration, now: now))
    }

    func release(_ id: SessionID, fence: UInt64) async throws(SessionStoreError) {
        try await measured(.release, await records.release(id, fence: fence))
    }

    func records(in index: RecordIndex, now: SessionTime) async throws(SessionStoreError) -> [SessionRecord] {
        try await measured(.list, await records.records(in: index, now: now))
    }

    var partitionCount: Int { records.partitionCount }
    func partition(of id: SessionID) -> Int { records.partition(of: id) }
    func partition(ofIndex index: RecordIndex) -> Int { records.partition(ofIndex: index) }

    func surplus(
        of account: UInt64, by rule: SurplusRule, now: SessionTime
    ) async throws(SessionStoreError) -> RecordSurplus {
        try await measured(.list, await records.surplus(of: account, by: rule, now: now))
    }

    func cutoffs(_ indexes: [RecordIndex], now: SessionTime) async throws(SessionStoreError) -> [SessionCutoff?] {
        try await measured(.cutoffRead, await records.cutoffs(indexes, now: now))
    }

    func setCutoff(
        _ index: RecordIndex, keeping kept: KeptSession?, before: SessionTime?, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) {
        try await measured(
            .cutoffWrite,
            await records.setCutoff(index, keeping: kept, before: before, lifetime: lifetime, now: now))
    }

    func throttleStates(_ keys: [ThrottleKey], now: SessionTime) async throws(SessionStoreError) -> [ThrottleState?] {
        try await measured(.throttleRead, await records.throttleStates(keys, now: now))
    }

    func countAttempt(
        _ counters: [ThrottleCounter], now: SessionTime
    ) async throws(SessionStoreError) -> ThrottleResult {
        try await measured(.throttleWrite, await records.countAttempt(counters, now: now))
    }

    func removeAttempt(_ counts: [ThrottleCount], now: SessionTime) async throws(SessionStoreError) {
        try await measured(.throttleWrite, await records.removeAttempt(counts, now: now))
    }

    func setMark(
        _ key: MarkKey, to time: WallTime, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        try await measured(.markWrite, await records.setMark(key, to: time, lifetime: lifetime, now: now))
    }

    func latestMark(_ keys: [MarkKey], now: SessionTime) async throws(SessionStoreError) -> WallTime? {
        try await measured(.markRead, await records.latestMark(keys, now: now))
    }

    func run(_ changes: any RecordChangeDelegate, idleTimeout: Duration) async {
        await records.run(changes, idleTimeout: idleTimeout)
    }

    /// - Parameter failure: The failure that a result contains, if any.
    private func measured<Result>(
        _ operation: SessionStoreOperation, failure: (Result) -> SessionStoreError? = { _ in nil },
        _ body: @autoclosure () async throws(SessionStoreError) -> Result
    ) async throws(SessionStoreError) -> Result {
        let start = clock.now
        do throws(SessionStoreError) {
            let result = try await body()
            let failure = failure(result)
            onOperation(operation, failure == nil, (clock.now - start).wholeNanoseconds)
            if let failure { onFailure(operation, failure.reason) }
            return result
        } catch {
            onOperation(operation, false, (clock.now - start).wholeNanoseconds)
            onFailure(operation, error.reason)
            throw error
        }
    }
}
