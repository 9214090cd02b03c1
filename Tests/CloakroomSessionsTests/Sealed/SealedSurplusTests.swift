import CloakroomCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The store of sealed sessions, for accounts with too many sessions", .timeLimit(.minutes(1)))
struct SealedSurplusTests: SealedStoreSuite {
    let setup = SealedStoreSetup()

    /// Creates a session at a gateway and ends the oldest ones.
    private func signIn(
        _ store: SealedSessionStore<InMemoryRecords>, over limit: Int, at now: SessionTime
    ) async throws -> [EndedSession] {
        let (_, session, mayExceed) = try await store.create(Sample.new(1), limit: limit, now: now)
        expect(mayExceed)
        return try await store.takeOldest(
            of: session.user, over: limit, but: session.id, reason: .replaced, now: now)
    }

    // With 100 sessions the number is an estimate, of which each of the four chooses one: the same. Of 20, each may choose
    // at most 16.
    @Test(
        "Of sign-ins at the same moment at two gateways, which all choose the same sessions, each chooses again",
        arguments: [(100, 4), (3, 20)])
    func simultaneous(_ limit: Int, _ signIns: Int) async throws {
        let stores = [store, store(InMemoryRecords(server))]
        for _ in 0..<limit { _ = try await store.create(Sample.new(1), now: start) }
        let gate = Gate()
        let chosen = Mutex(0)
        for store in stores {
            store.records.set {
                $0.checksSample = true
                $0.duringSurplus = {
                    let isLast = chosen.withLock { chosen in
                        chosen += 1
                        return chosen == signIns
                    }
                    if isLast { gate.open() }
                    await gate.passed()
                }
            }
        }
        let later = start + .seconds(10)
        let ended = try await withThrowingTaskGroup(of: [SessionID].self) { group in
            for number in 0..<signIns {
                group.addTask { try await signIn(stores[number % 2], over: limit, at: later).map(\.id) }
            }
            return try await group.reduce([], +)
        }
        expect(Set(ended).count, equals: ended.count)
        expect(records.count, equals: limit + signIns - ended.count)
        #expect(records.count <= limit)
        #expect(chosen.withLock { $0 } <= signIns * SurplusRule.maxRounds)
        // One alone chooses once.
        _ = try await store.create(Sample.new(1), now: later)
        chosen.withLock { $0 = 0 }
        let count = records.count
        _ = try await signIn(store, over: count, at: later + .seconds(1))
        expect(records.count, equals: count)
        expect(chosen.withLock { $0 }, equals: 1)
    }

    @Test("does not list the sessions of an account at a sign-in, unless they are mixed with those of another account")
    func listsNothing() async throws {
        let user = Sample.new(1).user
        func evict(_ new: SessionID) async throws -> Int {
            try await store.takeOldest(of: user, over: 2, but: new, reason: .replaced, now: start).count
        }
        for number in 1...3 {
            let (_, session) = try await store.create(Sample.new(1), now: start + .seconds(Int64(number)))
            try await expect(evict(session.id), equals: (number < 3 ? 0 : 1))
        }
        expect(server.listCount, equals: 0)
        var other = Sample.new(1)
        other.user = UserProfile(
            json: [], account: AccountName(userID: "17", source: Sample.source), name: user.account)
        _ = try await store.create(other, now: start)
        let (_, session) = try await store.create(Sample.new(1), now: start + .seconds(9))
        try await expect(evict(session.id), equals: 1)
        expect(server.listCount, equals: 1)
        expect(store.records.count, equals: 3)
    }

    @Test("reports the sessions that a sign-in has ended, also if not all indexes can be read")
    func surplusOfOneIndex() async throws {
        var new = Sample.new(1)
        new.user = UserProfile(
            json: new.user.json, account: new.user.account, name: AccountName(userID: "17", source: Sample.source))
        let (_, oldest) = try await store.create(new, now: start)
        let (_, latest) = try await store.create(new, now: start + .seconds(1))
        let hashes = Sample.secrets.accountHashes
        /// The sessions that have ended before the failure.
        func evict(failing account: AccountName, over limit: Int) async -> [SessionID]? {
            store.records.set { $0.failingAccounts = Set(hashes.candidateHashes(account)) }
            do throws(SessionStoreError) {
                _ = try await store.takeOldest(
                    of: new.user, over: limit, but: latest.id, reason: .replaced, now: start + .seconds(1))
                return nil
            } catch {
                return error.ended.map(\.id)
            }
        }
        await expect(evict(failing: new.user.account, over: 1), equals: [])
        await expect(evict(failing: new.user.name, over: 2), equals: [])
        await expect(evict(failing: new.user.name, over: 1), equals: [oldest.id])
    }
}
