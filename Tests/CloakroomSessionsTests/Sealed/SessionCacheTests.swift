import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

extension SessionCache {
    fileprivate func connectionChanged(isUp: Bool, partitions: Int = 1) {
        partitionsChanged([0..<partitions], areTrusted: isUp)
    }
}

@Suite("The cache of opened sessions")
struct SessionCacheTests {
    private func session(_ number: UInt64, last: UInt64 = 0) -> Session {
        // Spread like digests, because the low bits select the shard.
        let key = SessionKey(number &* 0x9e37_79b9_7f4a_7c15, number, number, last)
        return Session(
            key: key, user: Sample.user(), tokens: Sample.tokens(), createdAt: Sample.start,
            expiresAt: Sample.start + .seconds(60), lastUsedAt: Sample.start)
    }

    private func table(_ capacity: Int = 1_000) -> SessionCache {
        let table = SessionCache(capacity: capacity)
        table.connectionChanged(isUp: true)
        return table
    }

    private func put(_ session: Session, _ table: SessionCache, in partition: Int = 0, cutoffs: [Int] = []) {
        finish(table.begin(session.key, in: partition), session, table, cutoffs: cutoffs)
    }

    /// Ends a read whose cutoffs are read now.
    private func finish(
        _ read: SessionCache.ReadRegistration, _ session: Session, _ table: SessionCache, cutoffs: [Int] = []
    ) {
        let stamp = table.trust.stamp(record: read.partition, word: read.word, indexes: cutoffs)
        table.finish(read, with: stamp.map { SessionCache.Entry(session: session, stamp: $0) })
    }

    @Test("Rule 17: returns a session for its complete key only")
    func wholeKey() {
        let table = table()
        let session = session(1)
        put(session, table)
        expect(table.session(session.key) === session)
        expect(table.session(self.session(1, last: 1).key) == nil)
        expect(table.session(self.session(2).key) == nil)
        expect(table.count, equals: 1)
    }

    @Test("never exceeds its limit, and keeps recently used sessions", arguments: [1, 2, 7, 64, 100, 1_000])
    func bounded(capacity: Int) {
        let table = table(capacity)
        for number in 1...5_000 as ClosedRange<UInt64> {
            put(session(number), table)
            #expect(table.count <= capacity)
        }
        #expect(table.count > capacity / 2)
    }

    @Test("evicts sessions that are not used")
    func secondChance() {
        let table = table(1_000)
        let wanted = session(1)
        put(wanted, table)
        for number in 2...5_000 as ClosedRange<UInt64> {
            expect(table.session(wanted.key) === wanted)
            put(session(number), table)
        }
    }

    @Test("accepts and returns no session while the store sends no change notifications")
    func untrusted() {
        let table = SessionCache(capacity: 10)
        let session = session(1)
        put(session, table)
        expect(table.count, equals: 0)
        expect(table.session(session.key) == nil)
        table.connectionChanged(isUp: true)
        put(session, table)
        expect(table.session(session.key) === session)
        table.connectionChanged(isUp: false)
        expect(table.session(session.key) == nil)
        put(self.session(2), table)
        expect(table.count, equals: 1)
        // A read from before the connection came back has missed changes.
        let read = table.begin(session.key, in: 0)
        table.connectionChanged(isUp: true)
        finish(read, session, table)
        expect(table.session(session.key) == nil)
    }

    @Test("does not accept a session that was changed while it was being read")
    func loadRace() {
        let table = table()
        let session = session(1)
        for change in [
            { table.recordChanged(session.id) }, { table.allRecordsChanged() }, { table.connectionChanged(isUp: true) },
            { table.cutoffChanged(in: 0) }, { _ = table.begin(session.key, in: 0) },
        ] as [() -> Void] {
            let read = table.begin(session.key, in: 0)
            change()
            finish(read, session, table)
            expect(table.session(session.key) == nil)
        }
        let read = table.begin(session.key, in: 0)
        table.recordChanged(self.session(2).id)
        finish(read, session, table)
        expect(table.session(session.key) === session)
    }

    @Test("is not trusted while disconnected, nor is what was read before trusted after the reconnect")
    func trust() {
        let table = SessionCache(capacity: 10)
        let session = session(1)
        put(session, table)
        expect(!table.isAvailable)
        expect(table.session(session.key) == nil)
        table.connectionChanged(isUp: true)
        expect(table.isAvailable)
        expect(table.session(session.key) == nil)
        put(session, table)
        expect(table.session(session.key) != nil)
        let read = table.begin(self.session(2).key, in: 0)
        table.connectionChanged(isUp: false)
        expect(table.session(session.key) == nil)
        table.connectionChanged(isUp: true)
        expect(table.session(session.key) == nil)
        finish(read, self.session(2), table)
        expect(table.session(self.session(2).key) == nil)
        // The time of the last use may be read from it nevertheless.
        expect(table.cachedSession(session.key) === session)
        put(session, table)
        expect(table.session(session.key) === session)
        expect(table.count, equals: 1)
    }

    @Test("Rule 72: a partition without a connection loses its own sessions and those with a cutoff in it, no others")
    func partitions() {
        let table = SessionCache(capacity: 100, partitions: 16)
        table.connectionChanged(isUp: true, partitions: 16)
        let (first, second, third) = (session(1), session(2), session(3))
        func putAll() {
            put(first, table, in: 3, cutoffs: [9])
            put(second, table, in: 4, cutoffs: [3, 4])
            put(third, table, in: 5, cutoffs: [6, 7, 8])
        }
        func found() -> [Bool] {
            [first, second, third].map { (session: Session) in table.session(session.key) === session }
        }
        putAll()
        expect(found(), equals: [true, true, true])
        for (partitions, expected) in [
            ([3..<4], [false, false, true]), ([9..<10], [false, true, true]), ([4..<5], [true, false, true]),
            ([5..<6], [true, true, false]), ([6..<7], [true, true, false]), ([8..<9], [true, true, false]),
            ([0..<3, 10..<99], [true, true, true]), ([0..<16], [false, false, false]),
        ] {
            table.partitionsChanged(partitions, areTrusted: false)
            expect(found(), equals: expected)
            expect(table.isAvailable, equals: partitions != [0..<16])
            // What is read without a connection is not kept.
            putAll()
            expect(found(), equals: expected)
            table.partitionsChanged(partitions, areTrusted: true)
            expect(found(), equals: expected)
            putAll()
            expect(found(), equals: [true, true, true])
        }
        table.cutoffChanged(in: 7)
        expect(found(), equals: [true, true, false])
        table.allRecordsChanged()
        expect(found(), equals: [false, false, false])
    }

    @Test("A partition that leaves and returns while a session is read makes the result useless, in any order")
    func partitionRace() {
        let table = SessionCache(capacity: 100, partitions: 4)
        table.connectionChanged(isUp: true, partitions: 4)
        for partition in 0..<4 {
            let session = session(UInt64(partition))
            let read = table.begin(session.key, in: 0)
            let stamp = table.trust.stamp(record: read.partition, word: read.word, indexes: [1, 2, 3])
            table.partitionsChanged([partition..<partition + 1], areTrusted: false)
            table.partitionsChanged([partition..<partition + 1], areTrusted: true)
            table.finish(read, with: stamp.map { SessionCache.Entry(session: session, stamp: $0) })
            expect(table.session(session.key) == nil)
        }
    }

    @Test("A pending read is joined until its session, any cutoff or its partition changes")
    func joined() async {
        let table = SessionCache(capacity: 100, partitions: 4)
        table.connectionChanged(isUp: true, partitions: 4)
        let key = session(1).key
        var started = 0
        func read() {
            _ = table.pendingRead(of: key, in: 1) { _ in
                started += 1
                return Task { .success(.notCached) }
            }
        }
        read()
        read()
        expect(started, equals: 1)
        table.recordChanged(key.id)
        read()
        expect(started, equals: 2)
        table.cutoffChanged(in: 3)
        read()
        expect(started, equals: 3)
        table.partitionsChanged([1..<2], areTrusted: true)
        read()
        expect(started, equals: 4)
        table.partitionsChanged([2..<3], areTrusted: false)
        read()
        expect(started, equals: 4)
    }

    @Test("removes a changed session, and reuses its slot")
    func changed() {
        let table = table(1)
        for number in 1...10 as ClosedRange<UInt64> {
            put(session(number), table)
            expect(table.session(session(number).key) != nil)
            table.recordChanged(session(number).id)
            expect(table.session(session(number).key) == nil)
            expect(table.count, equals: 0)
        }
    }

    @Test("keeps the later time of use if a session is read again")
    func laterUse() {
        let table = table()
        let (old, new) = (session(1), session(1))
        put(old, table)
        old.touch(at: Sample.start + .seconds(50), granularity: .zero)
        put(new, table)
        expect(table.session(new.key)?.lastUsedAt, equals: Sample.start + .seconds(50))
    }

    @Test("Rule 63: a session that was changed or evicted counts requests of its objects in use, and of no others")
    func counts() {
        let table = table(1)
        let used = session(1)
        expect(used.beginRequest(limit: 1))
        put(used, table)
        for change in [{ table.recordChanged(used.id) }, { put(self.session(2), table) }] as [() -> Void] {
            change()
            let (read, uncached) = (session(1), session(1))
            for session in [uncached, read] {
                table.shareRequests(of: session)
                expect(!session.beginRequest(limit: 1))
            }
            put(read, table)
        }
        let shard = SessionCacheShard(capacity: 1)
        for number in 3...10_000 as ClosedRange<UInt64> {
            shard.shareRequests(of: session(number))
            #expect(shard.counts.count <= 64)
        }
        shard.shareRequests(of: used)
        for number in 3...1_000 as ClosedRange<UInt64> { shard.shareRequests(of: session(number)) }
        expect(shard.counts[used.key] === used.requests)
    }

    @Test("records uses of sessions that are not cached, a bounded number, once each")
    func uses() {
        let table = table(1)
        for number in 0..<10_000 as Range<UInt64> { table.recordUse(of: SessionID(number), at: Sample.start) }
        let noted = (0..<10_000 as Range<UInt64>).count { table.consumeUse(of: SessionID($0)) != nil }
        expect(noted, equals: 1_024)
        expect(table.consumeUse(of: SessionID(0)), equals: nil)
    }

    @Test("the end of a read returns the use that was recorded last, and none stays")
    func useAtEnd() {
        let table = table()
        let session = session(1)
        for entry in [nil, session] {
            let read = table.begin(session.key, in: 0)
            table.recordUse(of: session.id, at: Sample.start)
            // Of a request that joins the read.
            table.recordUse(of: session.id, at: Sample.start + .seconds(1))
            let stamp = table.trust.stamp(record: read.partition, word: read.word, indexes: [])
            let kept = entry.flatMap { session in stamp.map { SessionCache.Entry(session: session, stamp: $0) } }
            expect(table.finish(read, with: kept), equals: Sample.start + .seconds(1))
            expect(table.consumeUse(of: session.id), equals: nil)
        }
        expect(table.session(session.key) === session)
    }

    @Test("a read that a change has made stale leaves the use to the later read, and takes it if there is none")
    func useOfLaterRead() {
        let table = table()
        let session = session(1)
        let stale = table.begin(session.key, in: 0)
        table.recordChanged(session.id)
        let read = table.begin(session.key, in: 0)
        table.recordUse(of: session.id, at: Sample.start)
        expect(table.finish(stale, with: nil), equals: nil)
        expect(table.finish(read, with: nil), equals: Sample.start)
        let last = table.begin(session.key, in: 0)
        table.recordUse(of: session.id, at: Sample.start)
        table.recordChanged(session.id)
        expect(table.finish(last, with: nil), equals: Sample.start)
    }
}
