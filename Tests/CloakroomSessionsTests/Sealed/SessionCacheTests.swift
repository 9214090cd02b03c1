import CloakroomCore
import Testing

@testable import CloakroomSessions

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

    private func put(_ session: Session, _ table: SessionCache) {
        table.finish(table.begin(session.key), with: session)
    }

    @Test("Rule 17: returns a session for its complete key only")
    func wholeKey() {
        let table = table()
        let session = session(1)
        put(session, table)
        #expect(table.session(session.key) === session)
        #expect(table.session(self.session(1, last: 1).key) == nil)
        #expect(table.session(self.session(2).key) == nil)
        #expect(table.count == 1)
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
            #expect(table.session(wanted.key) === wanted)
            put(session(number), table)
        }
    }

    @Test("accepts and returns no session while the store sends no change notifications")
    func untrusted() {
        let table = SessionCache(capacity: 10)
        let session = session(1)
        put(session, table)
        #expect(table.count == 0)
        #expect(table.session(session.key) == nil)
        table.connectionChanged(isUp: true)
        put(session, table)
        table.connectionChanged(isUp: false)
        #expect(table.count == 0)
        put(session, table)
        #expect(table.count == 0)
        #expect(table.cachedSession(session.key) == nil)
        // A read from before the connection came back has missed changes.
        let read = table.begin(session.key)
        table.connectionChanged(isUp: true)
        table.finish(read, with: session)
        #expect(table.session(session.key) == nil)
    }

    @Test("does not accept a session that was changed while it was being read")
    func loadRace() {
        let table = table()
        let session = session(1)
        for change in [
            { table.recordChanged(session.id) }, { table.allRecordsChanged() }, { table.connectionChanged(isUp: true) },
            { _ = table.begin(session.key) },
        ] as [() -> Void] {
            let read = table.begin(session.key)
            change()
            table.finish(read, with: session)
            #expect(table.session(session.key) == nil)
        }
        let read = table.begin(session.key)
        table.recordChanged(self.session(2).id)
        table.finish(read, with: session)
        #expect(table.session(session.key) === session)
    }

    @Test("is not trusted while disconnected, and is empty after the reconnect")
    func trust() {
        let table = SessionCache(capacity: 10)
        let session = session(1)
        put(session, table)
        #expect(!table.isCoherent)
        #expect(table.session(session.key) == nil)
        table.connectionChanged(isUp: true)
        #expect(table.session(session.key) == nil)
        put(session, table)
        #expect(table.session(session.key) != nil)
        let read = table.begin(self.session(2).key)
        table.connectionChanged(isUp: false)
        #expect(table.session(session.key) == nil)
        table.connectionChanged(isUp: true)
        table.finish(read, with: self.session(2))
        #expect(table.count == 0)
    }

    @Test("removes a changed session, and reuses its slot")
    func changed() {
        let table = table(1)
        for number in 1...10 as ClosedRange<UInt64> {
            put(session(number), table)
            #expect(table.session(session(number).key) != nil)
            table.recordChanged(session(number).id)
            #expect(table.session(session(number).key) == nil)
            #expect(table.count == 0)
        }
    }

    @Test("keeps the later time of use if a session is read again")
    func laterUse() {
        let table = table()
        let (old, new) = (session(1), session(1))
        put(old, table)
        old.touch(at: Sample.start + .seconds(50), granularity: .zero)
        put(new, table)
        #expect(table.session(new.key)?.lastUsedAt == Sample.start + .seconds(50))
    }

    @Test("records uses of sessions that are not cached, a bounded number, once each")
    func uses() {
        let table = table(1)
        for number in 0..<10_000 as Range<UInt64> { table.recordUse(of: SessionID(number), at: Sample.start) }
        let noted = (0..<10_000 as Range<UInt64>).count { table.consumeUse(of: SessionID($0)) != nil }
        #expect(noted == 1_024)
        #expect(table.consumeUse(of: SessionID(0)) == nil)
    }
}
