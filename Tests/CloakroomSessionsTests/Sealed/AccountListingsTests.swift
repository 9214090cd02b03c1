import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

@Suite("Listings of the sessions of an account", .timeLimit(.minutes(1)))
struct AccountListingsTests: SealedStoreSuite {
    let setup = SealedStoreSetup()

    @Test("Rule 77: of one account one is in progress and one waits, which shows what exists when it is requested")
    func shared() async throws {
        _ = try await store.create(Sample.new(1), now: start)
        let (held, release) = AsyncStream<Void>.makeStream()
        let gate = Task { for await _ in held {} }
        records.set { $0.duringList = { await gate.value } }
        let first = store.listing(of: Sample.account(1), now: start)
        while server.listCount == 0 { await Task.yield() }
        _ = try await store.create(Sample.new(1), now: start)
        let others = (0..<100).map { _ in store.listing(of: Sample.account(1), now: start) }
        let another = store.listing(of: Sample.account(2), now: start)
        release.finish()
        try await expect(first.value.get().count, equals: 1)
        for listing in others { try await expect(listing.value.get().count, equals: 2) }
        try await expect(empty: another.value.get())
        expect(server.listCount, equals: 3)
        // None is kept.
        try await expect(store.sessions(of: Sample.account(1), now: start).count, equals: 2)
        expect(server.listCount, equals: 4)
    }

    @Test("A failure is that of all requests that share the listing, and of no later one")
    func failure() async throws {
        _ = try await store.create(Sample.new(1), now: start)
        records.set { $0.isUnavailable = true }
        let listings = (0..<10).map { _ in store.listing(of: Sample.account(1), now: start) }
        for listing in listings {
            await #expect(throws: SessionStoreError.self) { try await listing.value.get() }
        }
        records.set { $0.isUnavailable = false }
        try await expect(store.sessions(of: Sample.account(1), now: start).count, equals: 1)
    }
}
