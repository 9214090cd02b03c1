import Logging
import NIOPosix
import TestSupport
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
            expect(made.store.isAvailable, equals: kind == .memory, "\(kind)")
            expect(made.store.count, equals: 0, "\(kind)")
            var limit = RateLimit(name: "few")
            limit.isShared = true
            expect(RateBuckets(limit, storage: made.rateLimits).areShared, equals: kind == .valkey, "\(kind)")
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
            expect(error?.store, equals: kind)
            expect(error?.description.contains("session.secrets"), equals: true)
        }
        let account = AccountName(email: "jo@example.com")
        let drawn = try (0..<2).map { _ in try make(SessionConfiguration()).accounts.hash(account) }
        expect(drawn[0] != drawn[1])
        let derived = try (0..<2).map { _ in
            try make(SessionConfiguration(secrets: [Self.secret])).accounts.hash(account)
        }
        expect(derived[0], equals: derived[1])
        // Gateways with the same newest secret agree on the keys of shared rate limits.
        let other = Secret("fedcba9876543210fedcba9876543210")
        let valkey = ValkeyConfiguration(addresses: [HostAndPort(host: "a", port: 1)])
        let keys = try [[Self.secret], [Self.secret, other], [other]].map { secrets in
            let made = try make(SessionConfiguration(store: .valkey, secrets: secrets, valkey: valkey))
            return RateKey(peer: "192.0.2.1", hash: made.rateLimits.hash)
        }
        expect(keys[0], equals: keys[1])
        expect(keys[0] != keys[2])
    }
}

@Suite("Durations of store operations")
struct StoreMeterTests {
    private struct Call: Equatable {
        let operation: SessionStoreOperation
        var isSuccess = true
    }

    private let calls = Recorded<Call>()
    private let reasons = Recorded<SessionStoreError.Reason>()
    private let now = Sample.start

    private func store<Records: SessionRecordStore>(_ records: Records) -> SealedSessionStore<Records> {
        let (calls, reasons) = (calls, reasons)
        let meter = StoreMeter { _, reason in
            reasons.append(reason)
        } onOperation: { operation, isSuccess, _ in
            calls.append(Call(operation: operation, isSuccess: isSuccess))
        }
        let store = SealedSessionStore(
            records, configuration: Sample.configuration, secrets: Sample.secrets, meter: meter)
        store.connectionChanged(isUp: true)
        return store
    }

    @Test("Each operation is reported once, by its name")
    func everyOperation() async throws {
        let store = store(InMemoryRecords())
        var count = 0
        func expectCalls(_ operations: SessionStoreOperation..., line: Int = #line) {
            expect(calls.all.dropFirst(count), equals: operations.map { Call(operation: $0) }[...], "line \(line)")
            count = calls.all.count
        }
        let (ticket, session) = try await store.create(Sample.new(), now: now)
        expectCalls(.insert)
        _ = try await store.load(ticket, now: now)
        expectCalls(.read, .cutoffRead)
        _ = store.lookup(ticket, now: now + .seconds(200), slides: true)
        await store.writeTouches()
        expectCalls(.touch)
        let lease = try await require(store.lease(session.key, for: .seconds(5), now: now).lease)
        expectCalls(.lease)
        _ = try await store.save(SessionUpdate(), ticket: ticket, over: session, under: lease, now: now)
        expectCalls(.replace)
        await store.release(lease, of: session.key)
        expectCalls(.release)
        try await expect(store.sessions(of: session.user.account, now: now).count, equals: 1)
        expectCalls(.list)
        _ = try await store.takeOldest(of: session.user, over: 1, but: session.id, reason: .revoked, now: now)
        expectCalls(.list)
        _ = try await store.takeAll(.account(session.user.account), reason: .revoked, now: now)
        expectCalls(.cutoffWrite, .list, .remove)
        let counter = ThrottleCounter(ThrottleKey(.address, hash: 1), SignInThrottle.rule(.address))
        let result = ThrottleResult([counter], [nil], now: now)
        try await expect(store.countAttempt([counter], now: now), equals: result)
        try await expect(store.throttleStates([counter.key], now: now)[0]?.count, equals: 1)
        try await store.removeAttempt([ThrottleCount(counter, over: nil, now: now)], now: now)
        expectCalls(.throttleWrite, .throttleRead, .throttleWrite)
        let mark = MarkKey(.usedLogin, hash: 1)
        try await expect(store.setMark([mark], lifetime: .seconds(9), now: now))
        try await expect(store.hasMark([mark], now: now))
        expectCalls(.markWrite, .markRead)
        expect(Set(calls.all.map(\.operation)), equals: Set(SessionStoreOperation.allCases))
    }

    @Test("Uses that a part of the store has not written are a failure with a reason")
    func unwrittenUses() async throws {
        let records = InMemoryRecords()
        let store = store(records)
        let (ticket, _) = try await store.create(Sample.new(), now: now)
        _ = try await store.load(ticket, now: now)
        _ = store.lookup(ticket, now: now + .seconds(200), slides: true)
        records.set { $0.failingPartitions = [0] }
        await store.writeTouches()
        records.set { $0.failingPartitions = [] }
        await store.writeTouches()
        expect(calls.all.filter { $0.operation == .touch }.map(\.isSuccess), equals: [false, true])
        expect(reasons.all, equals: [.clusterDown])
    }

    @Test("A failure is reported as one, and its error is unchanged")
    func failure() async throws {
        let sqlite = SQLiteRecordStore(
            path: "/nowhere/at/all/sessions.sqlite", logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            now: { SessionTime(seconds: 1) })
        let store = store(sqlite)
        var generator = SystemRandomNumberGenerator()
        let ticket = SessionTicket(using: &generator)
        await #expect(throws: SessionStoreError(.unavailable)) { try await store.load(ticket, now: now) }
        expect(calls.all, equals: [Call(operation: .read, isSuccess: false)])
    }
}
