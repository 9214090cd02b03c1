import Logging
import NIOPosix
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

@Suite("The store that a configuration selects", .timeLimit(.minutes(3)))
struct SessionStoreFactoryTests {
    private static let secret = Secret("0123456789abcdef0123456789abcdef")
    private static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private func make(_ configuration: SessionConfiguration) throws -> SessionStoreFactory.Product {
        try SessionStoreFactory.make(
            configuration, group: MultiThreadedEventLoopGroup.singleton, logger: Self.quiet,
            clock: { SessionTime(seconds: 1) })
    }

    @Test("Each kind is created, and only the in-memory store is available before it runs")
    func kinds() throws {
        let valkey = ValkeyConfiguration(addresses: [HostAndPort(host: "127.0.0.1", port: 1)])
        let sqlite = SQLiteConfiguration(path: "/nowhere/at/all/sessions.sqlite")
        for kind in SessionConfiguration.Store.allCases {
            let made = try make(
                SessionConfiguration(store: kind, secrets: [Self.secret], sqlite: sqlite, valkey: valkey))
            #expect(made.store.isAvailable == (kind == .memory), "\(kind)")
            #expect(made.store.count == 0, "\(kind)")
            var limit = RateLimit(name: "few")
            limit.isShared = true
            #expect(RateBuckets(limit, storage: made.rateLimits).areShared == (kind == .valkey), "\(kind)")
        }
    }

    @Test("A store that seals reports a missing secret with a remedy; the memory store generates its own key")
    func withoutSecrets() throws {
        for kind in [SessionConfiguration.Store.sqlite, .valkey] {
            let error = #expect(throws: SessionStoreSetupError.self) {
                try make(
                    SessionConfiguration(
                        store: kind, valkey: ValkeyConfiguration(addresses: [HostAndPort(host: "a", port: 1)])))
            }
            #expect(error?.store == kind)
            #expect(error?.description.contains("session.secrets") == true)
        }
        let account = AccountName(email: "jo@example.com")
        let drawn = try (0..<2).map { _ in try make(SessionConfiguration()).accounts.hash(account) }
        #expect(drawn[0] != drawn[1])
        let derived = try (0..<2).map { _ in
            try make(SessionConfiguration(secrets: [Self.secret])).accounts.hash(account)
        }
        #expect(derived[0] == derived[1])
        // Gateways with the same newest secret agree on the keys of shared rate limits.
        let other = Secret("fedcba9876543210fedcba9876543210")
        let valkey = ValkeyConfiguration(addresses: [HostAndPort(host: "a", port: 1)])
        let keys = try [[Self.secret], [Self.secret, other], [other]].map { secrets in
            let made = try make(SessionConfiguration(store: .valkey, secrets: secrets, valkey: valkey))
            return RateKey(peer: "192.0.2.1", hash: made.rateLimits.hash)
        }
        #expect(keys[0] == keys[1])
        #expect(keys[0] != keys[2])
    }
}

@Suite("Durations of store operations")
struct InstrumentedRecordStoreTests {
    private struct Call: Equatable {
        let operation: SessionStoreOperation
        let isSuccess: Bool
    }

    private static func record(_ word: UInt64) -> SessionRecord {
        SessionRecord(
            key: SessionKey(word, 2, 3, 4), account: 5, createdAt: SessionTime(seconds: 1),
            expiresAt: SessionTime(seconds: 1_000), lastUsedAt: SessionTime(seconds: 1), version: 1, contents: [1],
            client: [2])
    }

    @Test("Each operation is reported once, by its name, and returns its result unchanged")
    func everyOperation() async throws {
        let calls = Recorded<Call>()
        let records = InstrumentedRecordStore(records: InMemoryRecords()) { operation, isSuccess, _ in
            calls.append(Call(operation: operation, isSuccess: isSuccess))
        }
        let now = SessionTime(seconds: 2)
        let record = Self.record(1)
        let id = record.key.id
        #expect(try await records.insert(record, keepUntil: record.expiresAt, now: now))
        #expect(records.count == 1)
        #expect(try await records.read(id, now: now) == .record(record))
        try await records.touch([RecordTouch(id: id, lastUsedAt: now, keepUntil: record.expiresAt)])
        guard case .acquired(let lease) = try await records.lease(id, for: .seconds(5), now: now) else {
            Issue.record("the lease was not acquired")
            return
        }
        var next = record
        next.version = 2
        #expect(try await records.replace(next, fence: lease.fencingToken, now: now) == .done)
        try await records.release(id, fence: lease.fencingToken)
        #expect(try await records.records(in: .account(record.account), now: now).count == 1)
        #expect(try await records.remove(id, reason: .revoked, condition: nil, now: now) != .notFound)
        let key = ThrottleKey(.address, hash: 1)
        let counter = ThrottleCounter(key, SignInThrottle.rule(.address))
        let result = ThrottleResult([counter], [nil], now: now)
        #expect(try await records.countAttempt([counter], now: now) == result)
        #expect(try await records.throttleStates([key], now: now)[0]?.count == 1)
        try await records.removeAttempt([ThrottleCount(counter, over: nil, now: now)], now: now)
        #expect(try await records.throttleStates([key], now: now) == [nil])
        let mark = MarkKey(.usedLogin, hash: 1)
        #expect(try await records.setMark([mark], lifetime: .seconds(9), now: now))
        #expect(try await records.hasMark([mark], now: now))
        let index = RecordIndex.account(record.account)
        try await records.setCutoff(
            index, keeping: KeptSession(id: id, birth: 1), before: nil, lifetime: .seconds(9), now: now)
        #expect(try await records.cutoffs([index], now: now).first??.kept == id)
        let told = calls.all
        // Two of them twice: attempts are counted and removed, and read after each.
        #expect(told.count == SessionStoreOperation.allCases.count + 2)
        #expect(Set(told.map(\.operation)) == Set(SessionStoreOperation.allCases))
        #expect(told.allSatisfy { $0.isSuccess })
    }

    @Test("Uses that a part of the store has not written are a failure with a reason")
    func unwrittenUses() async throws {
        let calls = Recorded<Call>()
        let reasons = Recorded<SessionStoreError.Reason>()
        let failing = InMemoryRecords(partitions: 2)
        failing.set { $0.failingPartitions = [1] }
        let records = InstrumentedRecordStore(records: failing) { operation, reason in
            if operation == .touch { reasons.append(reason) }
        } onOperation: { operation, isSuccess, _ in
            calls.append(Call(operation: operation, isSuccess: isSuccess))
        }
        let now = SessionTime(seconds: 2)
        func touches(_ ids: ClosedRange<UInt64>) -> [RecordTouch] {
            ids.map { RecordTouch(id: SessionID($0), lastUsedAt: now, keepUntil: now + .seconds(9)) }
        }
        #expect(try await records.touch(touches(1...4))?.ids == [SessionID(1), SessionID(3)])
        #expect(try await records.touch(touches(2...2)) == nil)
        #expect(calls.all.map(\.isSuccess) == [false, true])
        #expect(reasons.all == [.clusterDown])
    }

    @Test("What is not an operation on the store is passed on, and the choice of the oldest is reported as a list")
    func passedOn() async throws {
        let calls = Recorded<Call>()
        let memory = InMemoryRecords(partitions: 16)
        let records = InstrumentedRecordStore(records: memory) { operation, isSuccess, _ in
            calls.append(Call(operation: operation, isSuccess: isSuccess))
        }
        #expect(records.partitionCount == 16)
        #expect(records.partition(of: SessionID(5)) == 5)
        #expect(records.partition(ofIndex: .providerSession(7)) == 7)
        let rule = SurplusRule(
            limit: 0, accounts: [1], usedAfter: SessionTime(seconds: 1), new: SessionID(1))
        #expect(try await records.surplus(of: 1, by: rule, now: SessionTime(seconds: 2)) == .none)
        #expect(calls.all == [Call(operation: .list, isSuccess: true)])
    }

    @Test("A failure is reported as one, and its error is unchanged")
    func failure() async throws {
        let calls = Recorded<Call>()
        let sqlite = SQLiteRecordStore(
            path: "/nowhere/at/all/sessions.sqlite", logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            now: { SessionTime(seconds: 1) })
        let records = InstrumentedRecordStore(records: sqlite) { operation, isSuccess, _ in
            calls.append(Call(operation: operation, isSuccess: isSuccess))
        }
        await #expect(throws: SessionStoreError(.unavailable)) {
            try await records.read(SessionID(1), now: SessionTime(seconds: 1))
        }
        #expect(calls.all == [Call(operation: .read, isSuccess: false)])
    }
}
