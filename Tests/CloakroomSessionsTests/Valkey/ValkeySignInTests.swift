import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// The steps of a sign-in that is throttled, as the gateway takes them.
@Suite("The commands of a sign-in, on a real server", .timeLimit(.minutes(3)))
struct ValkeySignInTests {
    /// The scripts of a sign-in: two counts, one after the other; the removal of both with the entry in the list of the
    /// account; the record. So four of them wait for an earlier one.
    private static let scripts = 6
    private static let rule = ThrottleRule(
        limit: 100, window: .seconds(600), delay: .window, maxDelay: .seconds(660))

    /// A sign-in of an account from an address that all accounts have in common.
    private func signIn(_ number: Int, limit: Int = 100, _ store: any SessionStore) async throws -> Bool {
        let counters = [
            ThrottleKey(.accountAndAddress, hash: UInt64(1_000 + number), group: 1),
            ThrottleKey(.address, hash: 1), ThrottleKey(.account, hash: UInt64(number) << 32),
        ].map { ThrottleCounter($0, Self.rule) }
        guard case .counted(let counts) = try await store.countAttempt(counters, now: Sample.start) else {
            throw SessionStoreError(.full)
        }
        async let isRemoved: Void = store.removeAttempt(counts, now: Sample.start)
        let created = try await store.create(Sample.new(number), limit: limit, now: Sample.start)
        try await isRemoved
        return created.mayExceed
    }

    private func withStore(_ body: (any SessionStore, RedisServer) async throws -> Void) async throws {
        try await withSealedStore { store, server in
            // The first one makes the scripts known to the server.
            try await expect(!signIn(0, store))
            try await body(store, server)
        }
    }

    /// The number of calls of scripts so far, and of other commands that read or write sessions.
    private func calls(_ server: RedisServer) async throws -> (scripts: Int, others: Int) {
        let calls = try await server.calls()
        // Scripts call neither of these.
        return (calls["evalsha", default: 0], ["eval", "hmget", "zrem"].reduce(0) { $0 + calls[$1, default: 0] })
    }

    @Test("are six scripts, and no other command")
    func sequence() async throws {
        try await withStore { store, server in
            let before = try await calls(server)
            for number in 1...10 { try await expect(!signIn(number, store)) }
            let after = try await calls(server)
            expect(after.scripts - before.scripts, equals: 10 * Self.scripts)
            expect(after.others, equals: before.others)
        }
    }

    @Test("are the same for 32 at the same time from one address: none is sent again")
    func concurrency() async throws {
        try await withStore { store, server in
            let before = try await calls(server)
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 1...32 { group.addTask { try await signIn(number, store) } }
                for try await mayExceed in group { expect(!mayExceed) }
            }
            let after = try await calls(server)
            expect(after.scripts - before.scripts, equals: 32 * Self.scripts)
            expect(after.others, equals: before.others)
        }
    }

    @Test("Of those at the same time with one account, each beyond the limit finds that it is exceeded")
    func exceeded() async throws {
        try await withStore { store, _ in
            let found = try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 1...20 { group.addTask { try await signIn(1, limit: 5, store) } }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            expect(found, equals: 15)
        }
    }
}
