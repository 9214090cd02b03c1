import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// The contract of every record store, whatever its storage.
@Suite("Every record store", .timeLimit(.minutes(3)))
struct RecordStoreContractTests: RecordContract {
    private func held(_ attempt: LeaseResult) throws -> UInt64 { try require(attempt.lease).fencingToken }

    @Test("returns the records that were inserted, and counts them", arguments: RecordStoreCase.all)
    func roundTrip(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            let records = [record(1), record(2), record(0xffff_ffff)]
            for record in records { try await insert(record, store) }
            for record in records { try await expect(store.read(record.key.id, now: now), equals: .record(record)) }
            try await expect(store.read(SessionID(77), now: now), equals: .none)
            expect(!kind.counts || store.count == 3)
        }
    }

    @Test("finds a record by the hash of its account and by that of its name", arguments: RecordStoreCase.all)
    func foundByName(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            var (first, second) = (record(1, account: 5), record(2, account: 6))
            (first.name, second.name) = (50, 6)
            for record in [first, second] { try await insert(record, store) }
            try await expect(store.read(first.key.id, now: now), equals: .record(first))
            try await expect(store.records(in: .account(5), now: now), equals: [first.listed])
            try await expect(store.records(in: .account(50), now: now), equals: [first.listed])
            try await expect(store.records(in: .account(6), now: now), equals: [second.listed])
            var renamed = first
            (renamed.name, renamed.version) = (51, 2)
            try await expect(store.replace(renamed, fence: nil, now: now), equals: .done)
            try await expect(empty: store.records(in: .account(50), now: now))
            try await expect(store.records(in: .account(51), now: now), equals: [renamed.listed])
            _ = try await store.remove(first.key.id, reason: .revoked, condition: nil, now: now)
            try await expect(empty: store.records(in: .account(51), now: now))
        }
    }

    @Test("keeps large and empty contents", arguments: RecordStoreCase.all)
    func sizes(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            for (number, count) in [(1, 0), (2, 1), (3, 100_000)] as [(UInt64, Int)] {
                var record = record(number)
                record.contents = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
                record.client = []
                try await insert(record, store)
                try await expect(store.read(record.key.id, now: now), equals: .record(record))
            }
        }
    }

    @Test("accepts no second record of the same name", arguments: RecordStoreCase.all)
    func nameTaken(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            try await insert(record(1), store)
            var other = record(1, account: 8)
            other.key = SessionKey(other.key.word0, 9, 9, 9)
            try await expect(!store.insert(other, keepUntil: later, now: now))
            try await expect(store.read(other.key.id, now: now), equals: .record(record(1)))
            try await expect(empty: store.records(in: .account(8), now: now))
        }
    }

    @Test("replaces the previous version only", arguments: RecordStoreCase.all)
    func versions(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            try await insert(record(1), store)
            var next = record(1, account: 5, version: 2)
            next.contents = [1, 2, 3]
            next.expiresAt = now + .seconds(60)
            try await expect(store.replace(record(1, version: 3), fence: nil, now: now), equals: .changed)
            try await expect(store.replace(record(1, version: 1), fence: nil, now: now), equals: .changed)
            try await expect(store.replace(next, fence: nil, now: now), equals: .done)
            try await expect(store.replace(next, fence: nil, now: now), equals: .changed)
            try await expect(store.read(next.key.id, now: now), equals: .record(next))
            try await expect(store.replace(record(2, version: 2), fence: nil, now: now), equals: .notFound)
            var other = record(1, version: 3)
            other.key = SessionKey(other.key.word0, 9, 9, 9)
            try await expect(store.replace(other, fence: nil, now: now), equals: .notFound)
            try await expect(store.records(in: .account(5), now: now), equals: [next.listed])
            try await expect(empty: store.records(in: .account(1), now: now))
        }
    }

    @Test(
        "replaces only under the latest lease, and without a lease only if there is none",
        arguments: RecordStoreCase.all)
    func fences(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            let id = record(1).key.id
            try await insert(record(1), store)
            let first = try held(await store.lease(id, for: .seconds(30), now: now))
            expect(first, equals: 1)
            try await expect(store.lease(id, for: .seconds(30), now: now), equals: .heldByOther)
            try await expect(store.replace(record(1, version: 2), fence: nil, now: now), equals: .fenced)
            try await expect(store.replace(record(1, version: 2), fence: first + 1, now: now), equals: .fenced)
            try await store.release(id, fence: first)
            let second = try held(await store.lease(id, for: .seconds(30), now: now))
            #expect(second > first)
            try await expect(store.replace(record(1, version: 2), fence: first, now: now), equals: .fenced)
            try await expect(store.replace(record(1, version: 3), fence: second, now: now), equals: .changed)
            try await expect(store.replace(record(1, version: 2), fence: second, now: now), equals: .done)
            try await store.release(id, fence: first)
            try await expect(store.lease(id, for: .seconds(30), now: now), equals: .heldByOther)
            try await store.release(id, fence: second)
            try await expect(store.replace(record(1, version: 3), fence: nil, now: now), equals: .done)
        }
    }

    @Test(
        "expires leases, and accepts saves of an expired lease until there is another",
        arguments: RecordStoreCase.followingGivenTime)
    func leaseRunsOut(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            let id = record(1).key.id
            try await insert(record(1), store)
            let first = try held(await store.lease(id, for: .seconds(30), now: now))
            try await expect(store.lease(id, for: .seconds(30), now: now + .milliseconds(29_999)), equals: .heldByOther)
            let end = now + .seconds(30)
            try await expect(store.replace(record(1, version: 2), fence: first, now: end), equals: .done)
            #expect(try held(await store.lease(id, for: .seconds(30), now: end)) > first)
            try await expect(store.replace(record(1, version: 3), fence: first, now: end), equals: .fenced)
        }
    }

    @Test("grants no lease on a missing record", arguments: RecordStoreCase.all)
    func leaseOnNothing(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            try await expect(store.lease(SessionID(9), for: .seconds(30), now: now), equals: .notFound)
            try await store.release(SessionID(9), fence: 1)
        }
    }

    @Test("grants one lease to a hundred concurrent requests at two stores", arguments: RecordStoreCase.all)
    func oneHolder(kind: RecordStoreCase) async throws {
        try await kind.runTwo { one, other in
            let id = record(1).key.id
            try await insert(record(1), one)
            let now = now
            let holders = try await withThrowingTaskGroup(of: Bool.self) { group in
                for index in 0..<100 {
                    group.addTask {
                        let store = index % 2 == 0 ? one : other
                        return try await store.lease(id, for: .seconds(30), now: now).lease != nil
                    }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            expect(holders, equals: 1)
        }
    }

    @Test(
        "removes a record once only, and returns the reason for some time afterwards", arguments: RecordStoreCase.all)
    func remove(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            for (number, reason) in SessionEndReason.allCases.enumerated() {
                let record = record(UInt64(number) + 1)
                try await insert(record, store)
                try await expect(
                    store.remove(record.key.id, reason: reason, condition: nil, now: now), equals: .removed(record))
                try await expect(store.read(record.key.id, now: now), equals: .ended(reason))
                try await expect(
                    store.remove(record.key.id, reason: .revoked, condition: nil, now: now), equals: .notFound)
                try await expect(store.read(record.key.id, now: now), equals: .ended(reason))
                try await expect(store.lease(record.key.id, for: .seconds(1), now: now), equals: .notFound)
                var next = record
                next.version = 2
                try await expect(store.replace(next, fence: nil, now: now), equals: .notFound)
            }
            expect(!kind.counts || store.count == 0)
            try await expect(empty: store.records(in: .account(1), now: now))
        }
    }

    @Test(
        "keeps the reason for the end of a record that it has lost, and no other reason replaces it",
        arguments: RecordStoreCase.all.filter { $0.name != "sqlite" })
    func removalOfLost(kind: RecordStoreCase) async throws {
        try await kind.run { store async throws in
            let id = record(1).key.id
            try await expect(store.remove(id, reason: .refreshRejected, condition: (1, 0), now: now), equals: .notFound)
            try await expect(store.read(id, now: now), equals: .none)
            for reason in [SessionEndReason.signedOut, .revoked] {
                try await expect(store.remove(id, reason: reason, condition: nil, now: now), equals: .notFound)
                try await expect(store.read(id, now: now), equals: .ended(.signedOut))
            }
        }
    }

    @Test("removes conditionally only if version and fence match", arguments: RecordStoreCase.all)
    func conditionalRemoval(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            let id = record(1).key.id
            try await insert(record(1), store)
            let fence = try held(await store.lease(id, for: .seconds(30), now: now))
            let changed: [(version: UInt64, fence: UInt64)] = [(2, fence), (1, fence + 1), (0, 0)]
            for condition in changed {
                try await expect(
                    store.remove(id, reason: .refreshRejected, condition: condition, now: now), equals: .changed)
            }
            try await expect(
                store.remove(id, reason: .refreshRejected, condition: (1, fence), now: now),
                equals: .removed(record(1)))
            try await expect(
                store.remove(id, reason: .refreshRejected, condition: (1, fence), now: now), equals: .notFound)
        }
    }

    @Test(
        "keeps the latest use, also over a replacement; revives no removed record", arguments: RecordStoreCase.all)
    func touches(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            let one = record(1)
            try await insert(one, store)
            func touch(_ id: SessionID, _ seconds: Int64) -> RecordTouch {
                RecordTouch(id: id, lastUsedAt: now + .seconds(seconds), keepUntil: later + .seconds(seconds))
            }
            try await store.touch([])
            try await store.touch([touch(one.key.id, 60), touch(SessionID(99), 60)])
            try await store.touch([touch(one.key.id, 30)])
            var expected = one
            expected.lastUsedAt = now + .seconds(60)
            try await expect(store.read(one.key.id, now: now), equals: .record(expected))
            try await expect(store.read(SessionID(99), now: now), equals: .none)
            try await expect(store.replace(record(1, version: 2), fence: nil, now: now), equals: .done)
            expected.version = 2
            try await expect(store.read(one.key.id, now: now), equals: .record(expected))
            (expected.version, expected.lastUsedAt) = (3, now + .seconds(61))
            try await expect(store.replace(expected, fence: nil, now: now), equals: .done)
            try await expect(store.read(one.key.id, now: now), equals: .record(expected))
            _ = try await store.remove(one.key.id, reason: .signedOut, condition: nil, now: now)
            try await store.touch([touch(one.key.id, 90)])
            try await expect(store.read(one.key.id, now: now), equals: .ended(.signedOut))
        }
    }

    @Test("writes no use shortly after one that another replica has recorded", arguments: RecordStoreCase.all)
    func supersededTouches(kind: RecordStoreCase) async throws {
        try await kind.runTwo { one, other in
            var expected = record(1)
            let id = expected.key.id
            try await insert(expected, one)
            func touch(_ store: any SessionRecordStore, _ milliseconds: Int64) async throws -> UnwrittenTouches? {
                let use = RecordTouch(id: id, lastUsedAt: now + .milliseconds(milliseconds), keepUntil: later)
                return try await store.touch([use], granularity: .milliseconds(112_500))
            }
            try await expect(touch(one, 112_500) == nil)
            for milliseconds in [112_900, 112_500, 90_000, 224_999] as [Int64] {
                let unwritten = try await touch(other, milliseconds)
                expect(unwritten?.superseded, equals: [id])
                expect(unwritten?.ids == [] && unwritten?.error == nil)
            }
            expected.lastUsedAt = now + .milliseconds(112_500)
            try await expect(one.read(id, now: now), equals: .record(expected))
            try await expect(touch(other, 225_000) == nil)
            expected.lastUsedAt = now + .milliseconds(225_000)
            try await expect(one.read(id, now: now), equals: .record(expected))
        }
    }

    @Test("writes many uses in one batch", arguments: RecordStoreCase.all)
    func manyTouches(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            let records = (1...600).map { record(UInt64($0)) }
            for record in records { try await insert(record, store) }
            try await store.touch(
                records.map { RecordTouch(id: $0.key.id, lastUsedAt: now + .seconds(60), keepUntil: later) })
            for known in try await store.records(in: .account(1), now: now) {
                expect(known.lastUsedAt, equals: now + .seconds(60))
            }
            try await expect(store.records(in: .account(1), now: now).count, equals: 600)
        }
    }

    @Test("lists the records of an account, all of them and no others", arguments: RecordStoreCase.all)
    func accounts(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            for number in 1...5 { try await insert(record(UInt64(number), account: 7), store) }
            try await insert(record(6, account: .max), store)
            try await insert(record(7, account: 0), store)
            let found = try await store.records(in: .account(7), now: now)
            expect(Set(found.map(\.key)), equals: Set((1...5).map { record($0).key }))
            try await expect(store.records(in: .account(.max), now: now), equals: [record(6, account: .max).listed])
            try await expect(store.records(in: .account(0), now: now), equals: [record(7, account: 0).listed])
            try await expect(empty: store.records(in: .account(8), now: now))
        }
    }

    @Test("is consistent between two stores that share their storage", arguments: RecordStoreCase.all)
    func replicas(kind: RecordStoreCase) async throws {
        try await kind.runTwo { one, other in
            try await insert(record(1), one)
            try await expect(other.read(record(1).key.id, now: now), equals: .record(record(1)))
            let fence = try held(await other.lease(record(1).key.id, for: .seconds(30), now: now))
            try await expect(one.lease(record(1).key.id, for: .seconds(30), now: now), equals: .heldByOther)
            try await expect(one.replace(record(1, version: 2), fence: fence, now: now), equals: .done)
            try await expect(other.replace(record(1, version: 2), fence: fence, now: now), equals: .changed)
            try await expect(other.records(in: .account(1), now: now).map(\.version), equals: [2])
        }
    }

    @Test(
        "notifies a replica that has read a record if another one changes or ends it", arguments: RecordStoreCase.all)
    func tellsOthers(kind: RecordStoreCase) async throws {
        try await kind.runWatched { one, _, other, changes in
            let id = record(1).key.id
            try await insert(record(1), one)
            _ = try await other.read(id, now: now)
            try await expect(one.replace(record(1, version: 2), fence: nil, now: now), equals: .done)
            await changes.wait(for: .changed(id), .allChanged, .up)
            try await expect(other.read(id, now: now).record?.version, equals: 2)
            _ = try await one.remove(id, reason: .revoked, condition: nil, now: now)
            await changes.wait(for: .changed(id), .allChanged, .up)
            try await expect(other.read(id, now: now), equals: .ended(.revoked))
        }
    }
}
