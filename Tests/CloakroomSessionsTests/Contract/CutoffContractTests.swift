import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// The contract of every session store for ending all sessions of an account.
@Suite("Every session store, for ending all sessions", .timeLimit(.minutes(3)))
struct CutoffContractTests {
    private let start = Sample.start
    private let account = Sample.account(1)

    @Test("ends those that there are, and none that begins after", arguments: SessionStoreCase.all)
    func before(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            for _ in 0..<3 {
                let (old, _) = try await store.create(Sample.new(1), now: start)
                try await expect(store.lookup(old, at: start).session != nil)
                try await expect(store.endAll(of: account, but: nil, reason: .revoked, now: start).count, equals: 1)
                let (next, session) = try await store.create(Sample.new(1), now: start)
                try await expect(store.lookup(old, at: start).reason, equals: .revoked)
                try await expect(store.lookup(next, at: start).session != nil)
                try await expect(store.sessions(of: account, now: start).map(\.id), equals: [session.id])
                _ = try await store.end(next, reason: .signedOut, now: start)
                try await expect(store.lookup(next, at: start).session == nil)
            }
        }
    }

    @Test("keeps the session that it is to keep, until the next time", arguments: SessionStoreCase.all)
    func keeps(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new(1)) { store, kept, first async throws in
            let (other, second) = try await store.create(Sample.new(1), now: start)
            try await expect(
                store.endAll(of: account, but: first.id, reason: .revoked, now: start), equals: [second.id])
            try await expect(store.lookup(kept, at: start).session != nil)
            try await expect(store.lookup(other, at: start).reason, equals: .revoked)
            let (late, third) = try await store.create(Sample.new(1), now: start)
            try await expect(store.endAll(of: account, but: third.id, reason: .revoked, now: start), equals: [first.id])
            try await expect(store.lookup(kept, at: start).reason, equals: .revoked)
            try await expect(store.lookup(late, at: start).session != nil)
            try await expect(store.endAll(of: account, but: nil, reason: .revoked, now: start), equals: [third.id])
            try await expect(store.lookup(late, at: start).reason, equals: .revoked)
        }
    }

    @Test("keeps a session that is refreshed after that, and its new tokens", arguments: SessionStoreCase.all)
    func refreshes(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new(1)) { store, ticket, session async throws in
            _ = try await store.endAll(of: account, but: session.id, reason: .revoked, now: start)
            let lease = try await require(store.lease(session.key, for: .seconds(30), now: start).lease)
            let update = SessionUpdate(tokens: Sample.tokens(2))
            let saved = try await store.save(update, ticket: ticket, over: session, under: lease, now: start)
            expect(saved.session?.tokens, equals: Sample.tokens(2))
            try await expect(store.reload(ticket, now: start).session?.tokens, equals: Sample.tokens(2))
        }
    }

    @Test("affects no other account, and no session of a provider by mistake", arguments: SessionStoreCase.all)
    func others(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new(Sample.provenance(1))) { store, mine, _ async throws in
            let (other, _) = try await store.create(Sample.new(2), now: start)
            try await expect(empty: store.endAll(of: account, but: nil, reason: .revoked, now: start))
            let session = ProviderSession(issuer: Sample.issuer, id: "another")
            try await expect(empty: store.takeAll(.provider(session), reason: .revoked, now: start))
            for ticket in [mine, other] { try await expect(store.lookup(ticket, at: start).session != nil) }
        }
    }

    @Test(
        "Rule 24: reaches every replica, also a session that one of them is using", arguments: SessionStoreCase.shared)
    func replicas(kind: SessionStoreCase) async throws {
        try await kind.runTwo { one, other in
            let (ticket, _) = try await one.create(Sample.new(1), now: start)
            try await expect(other.lookup(ticket, at: start).session != nil)
            let changes = other.changeCount
            try await expect(one.endAll(of: account, but: nil, reason: .revoked, now: start).count, equals: 1)
            try await eventually("it is forgotten") { other.lookup(ticket, now: start, slides: false).session == nil }
            #expect(other.changeCount > changes)
            try await expect(other.lookup(ticket, at: start).reason, equals: .revoked)
            let (next, _) = try await other.create(Sample.new(1), now: start)
            try await expect(one.lookup(next, at: start).session != nil)
        }
    }
}

/// The contract of record stores with cutoffs.
@Suite("Every record store with cutoffs", .timeLimit(.minutes(3)))
struct CutoffRecordContractTests: RecordContract {
    static let kinds = RecordStoreCase.all.filter { $0.name != "sqlite" }

    private func stored(_ id: SessionID, _ store: any SessionRecordStore) async throws -> SessionRecord {
        try await require(store.read(id, now: now).record)
    }

    private func cutoff(_ index: RecordIndex, _ store: any SessionRecordStore) async throws -> SessionCutoff? {
        try await store.cutoffs([index], now: now).first ?? nil
    }

    private func set(
        _ index: RecordIndex, keeping kept: KeptSession? = nil, before: SessionTime? = nil,
        _ store: any SessionRecordStore
    ) async throws {
        try await store.setCutoff(index, keeping: kept, before: before, lifetime: .seconds(3_600), now: now)
    }

    @Test("orders the births of records and the cutoffs of an index", arguments: kinds)
    func order(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            let index = RecordIndex.account(1)
            try await expect(store.cutoffs([index, .account(2)], now: now), equals: [nil, nil])
            var latest: Int64 = 0
            for number in UInt64(1)...5 {
                try await insert(record(number), store)
                let made = try await stored(record(number).key.id, store)
                #expect(try require(made.birth.account) > latest)
                try await set(index, store)
                let cutoff = try await require(cutoff(index, store))
                expect(cutoff.ends(made, in: index))
                #expect(cutoff.time > latest)
                latest = cutoff.time
            }
            try await expect(cutoff(.account(2), store), equals: nil)
            try await expect(cutoff(.providerSession(1), store), equals: nil)
        }
    }

    @Test("has a birth for each index of a record, and keeps them in all changes", arguments: kinds)
    func births(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            var record = record(1)
            (record.name, record.provider) = (5, 6)
            try await insert(record, store)
            let made = try await stored(record.key.id, store)
            expect(made.birth.account != nil && made.birth.name != nil && made.birth.provider != nil)
            for index in [RecordIndex.account(1), .account(5), .providerSession(6)] { try await set(index, store) }
            var next = record
            (next.version, next.account, next.provider) = (2, 9, 8)
            try await expect(store.replace(next, fence: nil, now: now), equals: .done)
            let changed = try await stored(record.key.id, store)
            expect(changed.birth, equals: made.birth)
            for index in changed.indexes {
                try await set(index, store)
                try await expect(require(cutoff(index, store)).ends(changed, in: index))
            }
            (next.version, next.birth) = (3, changed.birth)
            try await expect(store.replace(next, fence: nil, now: now), equals: .done)
            try await expect(stored(record.key.id, store).birth, equals: made.birth)
        }
    }

    @Test("keeps the later one of two times before which sessions were created, and the kept session", arguments: kinds)
    func createdBefore(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            let index = RecordIndex.providerSession(4)
            try await set(index, before: now, store)
            try await set(index, before: now - .seconds(1), store)
            try await expect(cutoff(index, store), equals: SessionCutoff(time: 0, kept: nil, createdBefore: now))
            try await set(index, keeping: KeptSession(id: SessionID(7), birth: 1), store)
            let both = try await require(cutoff(index, store))
            expect(both.time > 0 && both.kept == SessionID(7) && both.createdBefore == now)
            try await set(index, before: now + .seconds(1), store)
            try await expect(
                cutoff(index, store),
                equals: SessionCutoff(time: both.time, kept: SessionID(7), createdBefore: now + .seconds(1)))
            try await set(index, store)
            try await expect(require(cutoff(index, store)).kept, equals: nil)
        }
    }

    @Test(
        "does not keep a session that an earlier cutoff has ended, and keeps one again that it has kept",
        arguments: kinds)
    func endedBefore(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            let index = RecordIndex.account(1)
            let id = record(1).key.id
            try await insert(record(1), store)
            let birth = try await stored(id, store).birthTime(in: index)
            for _ in 0..<2 {
                try await set(index, keeping: KeptSession(id: id, birth: birth), store)
                let kept = try await cutoff(index, store)?.kept
                expect(kept, equals: id)
            }
            try await set(index, store)
            for time in [birth, 0] {
                try await set(index, keeping: KeptSession(id: id, birth: time), store)
                let kept = try await cutoff(index, store)?.kept
                expect(kept, equals: nil)
            }
            try await insert(record(2), store)
            let next = try await stored(record(2).key.id, store)
            try await set(index, keeping: KeptSession(id: next.key.id, birth: next.birthTime(in: index)), store)
            let kept = try await cutoff(index, store)?.kept
            expect(kept, equals: next.key.id)
        }
    }

    @Test(
        "reports a cutoff to the stores that have read it, and not to one without replicas that sets it",
        arguments: kinds)
    func reports(kind: RecordStoreCase) async throws {
        try await kind.runWatched { one, mine, other, changes in
            for index in [RecordIndex.account(1), .providerSession(1)] {
                try await expect(self.cutoff(index, other), equals: nil)
                try await expect(self.cutoff(index, one), equals: nil)
                try await self.set(index, one)
                try await changes.time(of: .cutoff(index))
                // A change is reported once after each read.
                try await expect(self.cutoff(index, other) != nil)
                try await self.set(index, one)
                try await changes.time(of: .cutoff(index), count: 2)
                // With a connected replica, own cutoffs are written over a second connection, so the server may report
                // them here too. That costs a read and is not wrong.
                #expect(mine.count(.cutoff(index)) <= (kind.hasReplicas ? 2 : 0))
            }
        }
    }
}
