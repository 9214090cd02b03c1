import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// The contract of every record store for sessions of providers and for marks.
@Suite("Every record store, for sessions of providers", .timeLimit(.minutes(3)))
struct ProviderRecordContractTests: RecordContract {
    @Test("finds a record by the hash of its session at the provider", arguments: RecordStoreCase.all)
    func foundByProviderSession(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            var (first, second) = (record(1), record(2))
            (first.provider, second.provider) = (.max, 6)
            for record in [first, second, record(3)] { try await insert(record, store) }
            try await expect(store.read(first.key.id, now: now), equals: .record(first))
            try await expect(store.records(in: .providerSession(.max), now: now), equals: [first.listed])
            try await expect(store.records(in: .providerSession(6), now: now), equals: [second.listed])
            // Hashes of accounts and of sessions at providers are different things.
            try await expect(empty: store.records(in: .providerSession(1), now: now))
            try await expect(empty: store.records(in: .account(6), now: now))
            try await expect(store.records(in: .account(1), now: now).count, equals: 3)
            var moved = first
            (moved.provider, moved.version) = (60, 2)
            try await expect(store.replace(moved, fence: nil, now: now), equals: .done)
            try await expect(empty: store.records(in: .providerSession(.max), now: now))
            try await expect(store.records(in: .providerSession(60), now: now), equals: [moved.listed])
            try await expect(
                store.remove(first.key.id, reason: .revoked, condition: nil, now: now), equals: .removed(moved))
            try await expect(empty: store.records(in: .providerSession(60), now: now))
        }
    }

    @Test("accepts no second record of the same name in the index of its provider", arguments: RecordStoreCase.all)
    func nameTakenAtProvider(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            try await insert(record(1), store)
            var other = record(1, account: 9)
            (other.key, other.provider) = (SessionKey(other.key.word0, 9, 9, 9), 5)
            try await expect(!store.insert(other, keepUntil: later, now: now))
            try await expect(empty: store.records(in: .providerSession(5), now: now))
        }
    }

    @Test("sets one of a hundred concurrent marks of the same key", arguments: RecordStoreCase.all)
    func markRace(kind: RecordStoreCase) async throws {
        try await kind.runTwo { one, other in try await MarkContract(now: now).race(one, other) }
    }
}
