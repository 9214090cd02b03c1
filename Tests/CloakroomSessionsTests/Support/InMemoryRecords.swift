import CloakroomCore
import Synchronization

@testable import CloakroomSessions

/// The simplest record store that implements the protocol, with switches for failures.
final class InMemoryRecords: SessionRecordStore {
    struct Switches {
        /// Every operation throws.
        var isUnavailable = false
        /// Uses of the sessions in these partitions cannot be written.
        var failingPartitions: Set<Int> = []
        /// The records in these partitions cannot be removed.
        var unremovablePartitions: Set<Int> = []
        /// Writes are carried out, but their results are lost.
        var losesResponses = false
        /// Awaited by each read, after the record was fetched and before it is returned.
        var duringRead: (@Sendable () async -> Void)?
        /// Awaited by each read of cutoffs, after they were fetched and before they are returned.
        var duringCutoffRead: (@Sendable () async -> Void)?
        /// Awaited by each listing, after the records were fetched and before they are returned.
        var duringList: (@Sendable () async -> Void)?
        /// Awaited by each choice of the oldest sessions, before it is returned.
        var duringSurplus: (@Sendable () async -> Void)?
        /// Of more than 32 sessions, only 32 are checked for that choice.
        var checksSample = false
        /// Awaited by each insertion, after the record was entered into its indexes and before it is stored.
        var duringInsert: (@Sendable () async -> Void)?
        /// Reads and writes of cutoffs throw.
        var cutoffsAreUnavailable = false
        /// The accounts whose surplus cannot be determined.
        var failingAccounts: Set<UInt64> = []
        /// The next write of a cutoff throws, as while a server is being replaced.
        var failsNextCutoff = false
    }

    let server: RecordServer
    private let switches = Mutex(Switches())
    private let changes = Mutex<(any RecordChangeDelegate)?>(nil)
    private let wasUp = Atomic<Bool>(false)

    let partitionCount: Int

    /// - Parameter partitions: Their numbers are the low bits of ids, and of the hashes of indexes.
    init(_ server: RecordServer = RecordServer(), partitions: Int = 1) {
        self.server = server
        partitionCount = partitions
    }

    func partition(of id: SessionID) -> Int { Int(id.value % UInt64(partitionCount)) }

    func partition(ofIndex index: RecordIndex) -> Int {
        switch index {
        case .account(let hash), .providerSession(let hash): Int(hash % UInt64(partitionCount))
        }
    }

    func set(_ body: @Sendable (inout Switches) -> Void) {
        switches.withLock { body(&$0) }
    }

    /// Breaks or restores the connection that delivers change notifications.
    func setLink(isUp: Bool) {
        let changes = changes.withLock { $0 }
        server.contents.withLock { $0.listeners[ObjectIdentifier(self)] = isUp ? changes : nil }
        let afterOutage = isUp && wasUp.exchange(true, ordering: .relaxed)
        changes?.partitionsChanged([0..<partitionCount], areTrusted: isUp, afterOutage: afterOutage)
    }

    var count: Int { server.contents.withLock { $0.kept.count } }

    private func ask() throws(SessionStoreError) {
        if switches.withLock({ $0.isUnavailable }) { throw SessionStoreError(.unavailable) }
    }

    private func response() throws(SessionStoreError) {
        if switches.withLock({ $0.losesResponses }) { throw SessionStoreError(.unavailable) }
    }

    /// Reads or changes the contents, unless the store is unavailable.
    private func ask<Value: Sendable>(
        _ body: (inout RecordServer.Contents) -> Value
    ) throws(SessionStoreError) -> Value {
        try ask()
        return server.contents.withLock { body(&$0) }
    }

    func insert(
        _ record: SessionRecord, limit: Int, keepUntil: SessionTime, now: SessionTime
    ) async throws(SessionStoreError) -> RecordInsertResult {
        try ask()
        var record = record
        record.birth = server.contents.withLock { contents in
            var birth = RecordBirth()
            for index in record.indexes {
                let time = max(now.milliseconds * 1_000, (contents.cutoffs[index]?.time ?? 0) + 1)
                contents.births[index] = max(contents.births[index] ?? 0, time)
                switch index {
                case .account(let hash) where hash == record.account: birth.account = time
                case .account: birth.name = time
                case .providerSession: birth.provider = time
                }
            }
            return birth
        }
        await switches.withLock { $0.duringInsert }?()
        let result = server.contents.withLock { [record] contents -> RecordInsertResult in
            guard contents.kept[record.key.id] == nil else { return .taken }
            contents.kept[record.key.id] = RecordServer.StoredRecord(record: record)
            contents.ended[record.key.id] = nil
            return .done(
                mayExceed: record.indexHashes.contains { hash in
                    contents.listed.count { $0.indexHashes.contains(hash) } > limit
                })
        }
        try response()
        return result
    }

    func read(_ id: SessionID, now: SessionTime) async throws(SessionStoreError) -> RecordLookup {
        let lookup = try ask { contents -> RecordLookup in
            contents.readCount += 1
            if let kept = contents.kept[id] { return .record(kept.record) }
            if contents.foreign.contains(id) { return .unreadable }
            if let (reason, at) = contents.ended[id], now < at + Self.tombstoneLifetime { return .ended(reason) }
            return .none
        }
        await switches.withLock { $0.duringRead }?()
        return lookup
    }

    func replace(
        _ record: SessionRecord, keepUntil: SessionTime, fence: UInt64?, now: SessionTime
    ) async throws(SessionStoreError) -> RecordUpdateResult {
        try ask()
        let change = server.change(record.key.id, by: self) {
            contents -> (result: RecordUpdateResult, isChanged: Bool) in
            guard var kept = contents.kept[record.key.id], kept.record.key == record.key else {
                return (.notFound, false)
            }
            if let fence, kept.fence != fence { return (.fenced, false) }
            if fence == nil, now < kept.leasedUntil { return (.fenced, false) }
            guard kept.record.version + 1 == record.version else { return (.changed, false) }
            let lastUsedAt = max(record.lastUsedAt, kept.record.lastUsedAt)
            contents.replaceCount += 1
            let birth = kept.record.birth
            kept.record = record
            kept.record.birth = birth
            kept.record.lastUsedAt = lastUsedAt
            contents.kept[record.key.id] = kept
            return (.done, true)
        }
        try response()
        return change
    }

    func remove(
        _ id: SessionID, reason: SessionEndReason, condition: (version: UInt64, fence: UInt64)?, now: SessionTime
    ) async throws(SessionStoreError) -> RecordRemovalResult {
        try ask()
        let isRemovable = switches.withLock { !$0.unremovablePartitions.contains(partition(of: id)) }
        guard isRemovable else { throw SessionStoreError(.unavailable) }
        let removal = server.change(id, by: self) { contents -> (result: RecordRemovalResult, isChanged: Bool) in
            if condition == nil { contents.foreign.remove(id) }
            guard let kept = contents.kept[id] else {
                if condition == nil, contents.ended[id] == nil { contents.ended[id] = (reason, now) }
                return (.notFound, false)
            }
            if let condition, condition != (kept.record.version, kept.fence) { return (.changed, false) }
            contents.kept[id] = nil
            contents.ended[id] = (reason, now)
            return (.removed(kept.record), true)
        }
        try response()
        return removal
    }

    @discardableResult
    func touch(
        _ touches: [RecordTouch], granularity: Duration
    ) async throws(SessionStoreError) -> UnwrittenTouches? {
        try ask()
        let failing = switches.withLock { $0.failingPartitions }
        let failed = touches.filter { failing.contains(partition(of: $0.id)) }
        let superseded = server.contents.withLock { contents in
            contents.failedTouchCount += failed.count
            var superseded: Set<SessionID> = []
            for touch in touches where !failing.contains(partition(of: touch.id)) {
                if let kept = contents.kept[touch.id] {
                    guard touch.lastUsedAt - kept.record.lastUsedAt >= max(granularity, .milliseconds(1)) else {
                        superseded.insert(touch.id)
                        continue
                    }
                    contents.kept[touch.id]?.record.lastUsedAt = touch.lastUsedAt
                }
                contents.touched.append(touch)
            }
            return superseded
        }
        try response()
        let error = failed.isEmpty ? nil : SessionStoreError(.unavailable, reason: .clusterDown)
        let unwritten = UnwrittenTouches(ids: Set(failed.map(\.id)), error: error, superseded: superseded)
        return unwritten.isEmpty ? nil : unwritten
    }

    func lease(_ id: SessionID, for duration: Duration, now: SessionTime) async throws(SessionStoreError) -> LeaseResult
    {
        let attempt = try ask { contents -> LeaseResult in
            guard var kept = contents.kept[id] else { return .notFound }
            guard now >= kept.leasedUntil else { return .heldByOther }
            kept.fence += 1
            kept.leasedUntil = now + duration
            contents.kept[id] = kept
            return .acquired(RefreshLease(fence: kept.fence))
        }
        try response()
        return attempt
    }

    func release(_ id: SessionID, fence: UInt64) async throws(SessionStoreError) {
        try ask { contents in
            guard var kept = contents.kept[id], kept.fence == fence else { return }
            kept.leasedUntil = SessionTime(milliseconds: .min)
            contents.kept[id] = kept
        }
    }

    func records(in index: RecordIndex, now: SessionTime) async throws(SessionStoreError) -> [SessionRecord] {
        let found = try ask { contents in
            contents.listCount += 1
            return contents.listed.filter { $0.indexes.contains(index) }.map(\.listed)
        }
        await switches.withLock { $0.duringList }?()
        return found
    }

    func surplus(
        of account: UInt64, by rule: SurplusRule, now: SessionTime
    ) async throws(SessionStoreError) -> RecordSurplus {
        if switches.withLock({ $0.failingAccounts.contains(account) }) { throw SessionStoreError(.unavailable) }
        let found = try ask {
            $0.listed.filter { $0.indexHashes.contains(account) }.map(SurplusRule.Candidate.init)
                .sorted { ($0.createdAt, $0.id.value) < ($1.createdAt, $1.id.value) }
        }
        let checked = found.prefix(switches.withLock { $0.checksSample } ? 32 : found.count)
        await switches.withLock { $0.duringSurplus }?()
        return rule.surplus(
            in: SurplusRule.Sample(total: found.count, ids: checked.map(\.id), records: Array(checked)), now: now)
    }

    func cutoffs(_ indexes: [RecordIndex], now: SessionTime) async throws(SessionStoreError) -> [SessionCutoff?] {
        if switches.withLock({ $0.cutoffsAreUnavailable }) { throw SessionStoreError(.unavailable) }
        let cutoffs = try ask { contents in
            contents.cutoffReadCount += indexes.count
            return indexes.map { contents.cutoffs[$0] }
        }
        await switches.withLock { $0.duringCutoffRead }?()
        return cutoffs
    }

    func setCutoff(
        _ index: RecordIndex, keeping kept: KeptSession?, before: SessionTime?, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) {
        try ask()
        let isFailing = switches.withLock { switches in
            defer { switches.failsNextCutoff = false }
            return switches.cutoffsAreUnavailable || switches.failsNextCutoff
        }
        if isFailing { throw SessionStoreError(.unavailable) }
        server.setCutoff(index, by: self, keeping: kept, before: before, now: now)
        try response()
    }

    func throttleStates(_ keys: [ThrottleKey], now: SessionTime) async throws(SessionStoreError) -> [ThrottleState?] {
        try ask { contents in keys.map { contents.state($0, now) } }
    }

    func countAttempt(
        _ counters: [ThrottleCounter], now: SessionTime
    ) async throws(SessionStoreError) -> ThrottleResult {
        try ask { contents in
            let result = ThrottleResult(counters, counters.map { contents.state($0.key, now) }, now: now)
            if case .counted(let counts) = result {
                for count in counts { contents.throttle[count.counter.key] = (count.after, now + count.lifetime) }
            }
            return result
        }
    }

    func removeAttempt(_ counts: [ThrottleCount], now: SessionTime) async throws(SessionStoreError) {
        try ask { contents in
            for count in counts {
                let key = count.counter.key
                let new = count.removed(from: contents.state(key, now), now: now)
                contents.throttle[key] = new.map { ($0.state, now + $0.lifetime) }
            }
        }
    }

    func setMark(
        _ key: MarkKey, to time: WallTime, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        let isNew = try ask { contents in
            if let kept = contents.marks[key], now < kept.end, kept.time >= time { return false }
            contents.marks[key] = (time, now + lifetime)
            return true
        }
        try response()
        return isNew
    }

    func latestMark(_ keys: [MarkKey], now: SessionTime) async throws(SessionStoreError) -> WallTime? {
        try ask { contents in keys.compactMap { contents.marks[$0] }.filter { now < $0.end }.map(\.time).max() }
    }

    func run(_ changes: any RecordChangeDelegate) async {
        self.changes.withLock { $0 = changes }
        setLink(isUp: true)
        let (end, ender) = AsyncStream<Void>.makeStream()
        await withTaskCancellationHandler {
            for await _ in end {}
        } onCancel: {
            ender.finish()
        }
        setLink(isUp: false)
    }
}

extension SessionRecordStore {
    /// Saves a changed record without extending the time for which it is kept.
    func replace(
        _ record: SessionRecord, fence: UInt64?, now: SessionTime
    ) async throws(SessionStoreError) -> RecordUpdateResult {
        try await replace(record, keepUntil: now, fence: fence, now: now)
    }
}

extension SessionRecord {
    /// The record as a listing returns it.
    var listed: SessionRecord {
        var record = self
        record.contents = []
        return record
    }
}
