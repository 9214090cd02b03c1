import CloakroomCore
import Synchronization

@testable import CloakroomSessions

/// A server that several record stores of one process share: one lock protects its contents.
final class RecordServer: Sendable {
    struct StoredRecord {
        var record: SessionRecord
        var fence: UInt64 = 0
        var leasedUntil = SessionTime(milliseconds: .min)
    }

    struct Contents {
        var kept: [SessionID: StoredRecord] = [:]
        var foreign: Set<SessionID> = []
        var ended: [SessionID: (reason: SessionEndReason, at: SessionTime)] = [:]
        var throttle: [ThrottleKey: (state: ThrottleState, forgetAt: SessionTime)] = [:]
        var marks: [MarkKey: (time: WallTime, end: SessionTime)] = [:]
        var cutoffs: [RecordIndex: SessionCutoff] = [:]
        /// The latest birth in each index.
        var births: [RecordIndex: Int64] = [:]
        /// The records that the indexes do not list.
        var unlisted: Set<SessionID> = []
        var listeners: [ObjectIdentifier: any RecordChangeDelegate] = [:]
        var readCount = 0
        var cutoffReadCount = 0
        var listCount = 0
        var replaceCount = 0
        var touched: [RecordTouch] = []
        var failedTouchCount = 0

        /// The records that are found by their indexes.
        var listed: [SessionRecord] { kept.values.map(\.record).filter { !unlisted.contains($0.key.id) } }

        /// A throttle state that has not expired.
        func state(_ key: ThrottleKey, _ now: SessionTime) -> ThrottleState? {
            throttle[key].flatMap { now < $0.forgetAt ? $0.state : nil }
        }
    }

    let contents = Mutex(Contents())

    /// The number of records.
    var count: Int { contents.withLock { $0.kept.count } }
    /// The number of reads of a record.
    var readCount: Int { contents.withLock { $0.readCount } }
    /// The number of indexes whose cutoffs were read.
    var cutoffReadCount: Int { contents.withLock { $0.cutoffReadCount } }
    /// The number of times that the records of an index were listed.
    var listCount: Int { contents.withLock { $0.listCount } }
    /// The number of replacements of a record.
    var replaceCount: Int { contents.withLock { $0.replaceCount } }
    /// The number of touches that could not be written.
    var failedTouchCount: Int { contents.withLock { $0.failedTouchCount } }
    /// All touches that were written.
    var touched: [RecordTouch] { contents.withLock { $0.touched } }

    func record(_ id: SessionID) -> SessionRecord? { contents.withLock { $0.kept[id]?.record } }

    /// Damages the contents stored under a name.
    func damage(_ id: SessionID, _ change: (inout SessionRecord) -> Void) {
        contents.withLock { contents in
            guard var kept = contents.kept[id] else { return }
            change(&kept.record)
            contents.kept[id] = kept
        }
    }

    func loseIndexEntries(of id: SessionID) {
        contents.withLock { _ = $0.unlisted.insert(id) }
    }

    /// Loses a record, as a failover may do, and returns it.
    func lose(_ id: SessionID) -> StoredRecord? {
        contents.withLock { $0.kept.removeValue(forKey: id) }
    }

    /// Writes a lost record again, as the gateway does that has written it, unless its session has ended.
    func restore(_ record: StoredRecord) {
        contents.withLock { contents in
            let id = record.record.key.id
            if contents.ended[id] == nil { contents.kept[id] = record }
        }
    }

    /// Stores a value that is no record.
    func makeForeign(_ id: SessionID) {
        contents.withLock { contents in
            contents.kept[id] = nil
            contents.foreign.insert(id)
        }
    }

    /// Everything that an attacker with a copy of the store would have.
    var dump: [UInt8] {
        contents.withLock { contents in
            contents.kept.values.flatMap { kept in
                kept.record.contents + kept.record.client + Array("\(kept)".utf8)
            } + Array("\(contents.ended)\(contents.throttle)\(contents.marks)".utf8)
        }
    }

    /// Changes the contents and notifies all stores except the one that made the change.
    func change<Result: Sendable>(
        _ id: SessionID, by changer: InMemoryRecords,
        _ body: (inout Contents) -> (result: Result, isChanged: Bool)
    ) -> Result {
        change(by: changer, { $0.recordChanged(id) }, body)
    }

    private func change<Result: Sendable>(
        by changer: InMemoryRecords, _ notify: (any RecordChangeDelegate) -> Void,
        _ body: (inout Contents) -> (result: Result, isChanged: Bool)
    ) -> Result {
        // The listeners are copied under the lock and called outside it, because they may call back.
        let (result, listeners) = contents.withLock { contents -> (Result, [any RecordChangeDelegate]) in
            let (result, isChanged) = body(&contents)
            guard isChanged else { return (result, []) }
            return (result, contents.listeners.filter { $0.key != ObjectIdentifier(changer) }.map(\.value))
        }
        for listener in listeners { notify(listener) }
        return result
    }

    /// Sets a cutoff and notifies all stores except the one that set it.
    func setCutoff(
        _ index: RecordIndex, by changer: InMemoryRecords, keeping kept: KeptSession?, before: SessionTime?,
        now: SessionTime
    ) {
        change(by: changer, { $0.cutoffChanged(index) }) { contents -> (result: Void, isChanged: Bool) in
            var cutoff = contents.cutoffs[index] ?? SessionCutoff()
            if let before {
                cutoff.createdBefore = max(cutoff.createdBefore ?? before, before)
            } else {
                let isEnded = cutoff.time > 0 && (kept?.birth ?? 0) <= cutoff.time && kept?.id != cutoff.kept
                cutoff.kept = isEnded ? nil : kept?.id
                cutoff.time = max(now.milliseconds * 1_000, cutoff.time + 1, contents.births[index] ?? 0)
            }
            contents.cutoffs[index] = cutoff
            return ((), true)
        }
    }
}
