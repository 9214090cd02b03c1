import CloakroomCore
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
            #expect(try await store.read(first.key.id, now: now) == .record(first))
            #expect(try await store.records(in: .providerSession(.max), now: now) == [first.listed])
            #expect(try await store.records(in: .providerSession(6), now: now) == [second.listed])
            // Hashes of accounts and of sessions at providers are different things.
            #expect(try await store.records(in: .providerSession(1), now: now).isEmpty)
            #expect(try await store.records(in: .account(6), now: now).isEmpty)
            #expect(try await store.records(in: .account(1), now: now).count == 3)
            var moved = first
            (moved.provider, moved.version) = (60, 2)
            #expect(try await store.replace(moved, fence: nil, now: now) == .done)
            #expect(try await store.records(in: .providerSession(.max), now: now).isEmpty)
            #expect(try await store.records(in: .providerSession(60), now: now) == [moved.listed])
            #expect(try await store.remove(first.key.id, reason: .revoked, condition: nil, now: now) == .removed(moved))
            #expect(try await store.records(in: .providerSession(60), now: now).isEmpty)
        }
    }

    @Test("accepts no second record of the same name in the index of its provider", arguments: RecordStoreCase.all)
    func nameTakenAtProvider(kind: RecordStoreCase) async throws {
        try await kind.run { store in
            try await insert(record(1), store)
            var other = record(1, account: 9)
            (other.key, other.provider) = (SessionKey(other.key.word0, 9, 9, 9), 5)
            #expect(try await !store.insert(other, keepUntil: later, now: now))
            #expect(try await store.records(in: .providerSession(5), now: now).isEmpty)
        }
    }

    @Test("sets one of a hundred concurrent marks of the same key", arguments: RecordStoreCase.all)
    func markRace(kind: RecordStoreCase) async throws {
        try await kind.runTwo { one, other in try await MarkContract(now: now).race(one, other) }
    }
}
