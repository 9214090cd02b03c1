import CloakroomCore
import CloakroomTelemetry
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Rate limits of several gateways", .serialized)
struct SharedRateLimitTests {
    private static let hash = KeyedHash(key0: 1, key1: 2)

    /// A limit of one request a second in the long run.
    private static func limit(_ name: String = "few", by subject: RateLimit.Subject = .address) -> RateLimit {
        var limit = RateLimit(name: name)
        limit.subject = subject
        limit.requests = RequestRate(60, per: .minute)
        limit.givenBurst = 2
        limit.isShared = true
        return limit
    }

    /// A gateway with limits on all routes. The time advances only by steps of the test, but settlements go on.
    private static func limited(_ limits: RateLimit..., over store: some RateLimitStore) -> GatewaySetup {
        GatewaySetup.serving.configuration { configuration in
            configuration.rateLimits = limits
            for index in configuration.routes.indices { configuration.routes[index].rate = limits.map(\.name) }
        }.steppedTime().with(\.rateLimits) { RateLimitStorage(store: store, hash: hash) }
    }

    private static func ask(_ gateway: RunningGateway, _ request: String = Ask.get()) async throws -> TestResponse {
        try await gateway.client().exchange(request)
    }

    private static func settled(_ outcome: String, _ count: Int) -> String {
        #"cloakroom_rate_limit_settlements_total{outcome="\#(outcome)"} \#(count)"#
    }

    /// Never replies while it is used.
    private struct SilentStore: RateLimitStore {
        let calls: SteppedRateStore

        func countGateways(including id: UInt64) async throws(SessionStoreError) -> Int {
            _ = try await calls.countGateways(including: id)
            try? await Task.sleep(for: .seconds(3_600))
            throw SessionStoreError(.unavailable)
        }

        func settle(_ debts: [RateDebt]) async -> (ahead: [UInt64?], failure: SessionStoreError?) {
            (debts.map { _ in nil }, SessionStoreError(.unavailable))
        }
    }

    @Test("Rule 103: what a client has used at one gateway delays it at the other, for all of it")
    func both() async throws {
        let store = SteppedRateStore()
        let setup = Self.limited(Self.limit(), over: store)
        try await setup.run { one in
            try await setup.run { other in
                for gateway in [one, other] { try await gateway.metric(Self.settled("done", 1)) }
                try await expect(Self.ask(one).status, equals: 200)
                try await expect(Self.ask(one).status, equals: 200)
                try await expect(Self.ask(one).status, equals: 429)
                try await eventually("both are settled") { store.charged == 2_000_000_000 }
                try await expect(Self.ask(other).status, equals: 200)
                try await other.metric(Self.settled("done", 2))
                let rejected = try await Self.ask(other)
                expect(rejected.status, equals: 429)
                expect(rejected["Retry-After"], equals: "2")
                expect(store.charged, equals: 3_000_000_000)
                for gateway in [one, other] { try await gateway.advance(.seconds(2)) }
                try await expect(Self.ask(other).status, equals: 200)
            }
        }
    }

    @Test("The keys in the store are hashes under the common secret")
    func keys() async throws {
        let store = SteppedRateStore()
        let subjects: [RateLimit.Subject] = [.address, .account, .session, .route]
        let limits = subjects.map { Self.limit("\($0)", by: $0) }
        let sessions = FakeSessions()
        let made = FakeSessions.make()
        let cookie = sessions.add(made)
        let setup = Self.limited(limits[0], limits[1], limits[2], limits[3], over: store)
        try await setup.with(\.sessions, sessions).run { gateway in
            try await gateway.metric(Self.settled("done", 1))
            try await expect(Self.ask(gateway, Ask.get("/private/a", cookie)).status, equals: 200)
            try await gateway.metric(Self.settled("done", 2))
        }
        let keys = try zip(subjects, limits).map { subject, limit in
            let key =
                switch subject {
                case .address: RateKey(peer: "127.0.0.1", hash: Self.hash)
                case .route: RateKey(route: "private", hash: Self.hash)
                default: try require(RateKey(made.1, at: limit, hash: Self.hash))
                }
            return (key.at(RateKey(limit, hash: Self.hash)).value | 64) & ~63
        }
        expect(store.keys, equals: Set(keys))
    }

    @Test("Rule 102: a store that fails or does not reply neither delays nor rejects a request")
    func failure() async throws {
        let (store, log) = (SteppedRateStore(), RecordedLog())
        store.setAway(true)
        try await Self.limited(Self.limit(), over: store).with(\.logger, log.logger).run { gateway in
            try await expect(Self.ask(gateway).status, equals: 200)
            try await gateway.metric(Self.settled("failed", 3))
            try await expect(Self.ask(gateway).status, equals: 200)
            try await expect(Self.ask(gateway).status, equals: 429)
            expect(log.lines("event", "rate_settlement_failed").count, equals: 1)
        }
        let silent = SteppedRateStore()
        try await Self.limited(Self.limit(), over: SilentStore(calls: silent)).run { gateway in
            try await expect(Self.ask(gateway).status, equals: 200)
            try await eventually("a settlement that hangs") { silent.gatewayCount == 1 }
            try await expect(Self.ask(gateway).status, equals: 200)
            try await expect(Self.ask(gateway).status, equals: 429)
            expect(empty: silent.keys)
        }
    }
}
