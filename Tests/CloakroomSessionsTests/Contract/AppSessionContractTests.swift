import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("Every session store, for sessions of apps with timeouts of their own", .timeLimit(.minutes(3)))
struct AppSessionContractTests {
    private let start = Sample.start
    private static let long = terms(idle: 7_200, absolute: 36_000)

    private static func terms(
        idle: Int64, absolute: Int64, _ device: DeviceConfiguration.Mode = .off
    ) -> SessionTerms {
        SessionTerms(idle: .seconds(idle), absolute: .seconds(absolute), device: device)
    }

    private static func new(_ terms: SessionTerms?) -> NewSession {
        var new = Sample.new()
        new.terms = terms
        new.client.app = "shop"
        return new
    }

    /// The configuration of gateways that have an app with the long timeouts.
    private static var configuration: SessionConfiguration {
        var configuration = Sample.configuration
        configuration.apps = [long]
        return configuration
    }

    @Test(
        "Rule 137: longer timeouts than the configured ones apply, after a refresh too", arguments: SessionStoreCase.all
    )
    func long(kind: SessionStoreCase) async throws {
        try await kind.run(Self.configuration) { store in
            let (ticket, session) = try await store.create(Self.new(Self.long), now: start)
            expect(session.expiresAt, equals: start + .seconds(36_000))
            let used = start + .seconds(7_000)
            let found = try await require(store.lookup(ticket, at: used).session)
            expect(found.terms == Self.long && found.lastUsedAt == used)
            let lease = try await require(store.lease(session.key, for: .seconds(2), now: used).lease)
            let tokens = SessionUpdate(tokens: Sample.tokens(1))
            let saved = try await store.save(tokens, ticket: ticket, over: found, under: lease, now: used).session
            expect(saved?.terms == Self.long && saved?.expiresAt == session.expiresAt && saved?.app == "shop")
            let reloaded = try await store.reload(ticket, now: used).session
            expect(reloaded?.terms == Self.long && reloaded?.app == "shop")
            let listed = try await store.sessions(of: Sample.account(), now: start + .seconds(13_000))
            expect(listed.map(\.id) == [session.id] && listed.map(\.client.app) == ["shop"])
            let end = used + kind.timeouts.of(Self.long).idle
            try await expect(store.lookup(ticket, at: end - .milliseconds(1), slides: false).session != nil)
            try await expect(store.lookup(ticket, at: end, slides: false).reason, equals: .expiredIdle)
        }
    }

    @Test(
        "Rule 137: shorter timeouts than the configured ones apply, and uses are recorded",
        arguments: SessionStoreCase.all)
    func short(kind: SessionStoreCase) async throws {
        let short = Self.terms(idle: 80, absolute: 200)
        try await kind.run { store in
            let (ticket, session) = try await store.create(Self.new(short), now: start)
            expect(session.expiresAt, equals: start + .seconds(200))
            let used = start + .seconds(60)
            try await expect(store.lookup(ticket, at: used).session?.lastUsedAt, equals: used)
            let end = used + kind.timeouts.of(short).idle
            #expect(end < start + .seconds(160))
            try await expect(store.lookup(ticket, at: end - .milliseconds(1), slides: false).session != nil)
            try await expect(store.lookup(ticket, at: end, slides: false).reason, equals: .expiredIdle)
        }
    }

    @Test(
        "One of an app without timeouts of its own has the name of the app, and the timeouts of the configuration",
        arguments: SessionStoreCase.all)
    func named(kind: SessionStoreCase) async throws {
        try await kind.run(Self.configuration) { store in
            let (ticket, session) = try await store.create(Self.new(nil), now: start)
            expect(session.expiresAt, equals: kind.timeouts.end(ofSessionMadeAt: start))
            let found = try await store.reload(ticket, now: start).session
            expect(found?.app == "shop" && found?.client == session.client && found?.terms == nil)
            try await expect(store.sessions(of: Sample.account(), now: start).map(\.client.app), equals: ["shop"])
            let end = start + kind.timeouts.of(nil).idle
            try await expect(store.lookup(ticket, at: end, slides: false).reason, equals: .expiredIdle)
        }
    }

    @Test("Rule 137: a replica that does not have the app keeps its sessions", arguments: SessionStoreCase.shared)
    func replica(kind: SessionStoreCase) async throws {
        try await kind.runTwo { one, two in
            let (ticket, _) = try await one.create(Self.new(Self.long), now: start)
            let late = start + .seconds(3_700)
            try await expect(two.lookup(ticket, at: late).session?.terms, equals: Self.long)
        }
    }

    @Test(
        "Rule 138: one that needs a key is not used where nothing checks proofs, and can be ended",
        arguments: SessionStoreCase.shared)
    func unchecked(kind: SessionStoreCase) async throws {
        let new = Self.new(Self.terms(idle: 7_200, absolute: 36_000, .required))
        try await kind.runTwo { one, two in
            let (ticket, _) = try await one.create(new, now: start)
            try await expect(two.lookup(ticket, at: start).reason, equals: .unproven)
            try await expect(two.end(ticket, reason: .signedOut, now: start) != nil)
        }
        var configuration = Self.configuration
        configuration.device.isUsedByApps = true
        try await kind.run(configuration) { store in
            let (ticket, _) = try await store.create(new, now: start)
            try await expect(store.lookup(ticket, at: start).session?.terms, equals: new.terms)
        }
    }

    @Test(
        "One that is idle for longer than others may be counts for the limit of its account",
        arguments: SessionStoreCase.all)
    func limit(kind: SessionStoreCase) async throws {
        try await kind.run(Self.configuration) { store in
            let (_, old) = try await store.create(Self.new(Self.long), now: start)
            let now = start + .seconds(5_000)
            let (_, new) = try await store.create(Sample.new(), now: now)
            let ended = try await store.takeOldest(
                of: Sample.user(), over: 1, but: new.id, reason: .replaced, now: now)
            expect(ended.map(\.id), equals: [old.id])
        }
    }

    @Test("Rule 137: the terms are sealed; those that cannot be read end no session")
    func sealed() throws {
        var generator = SystemRandomNumberGenerator()
        let ticket = SessionTicket(using: &generator)
        let timeouts = SessionTimeouts(Self.configuration, isShared: true)
        let session = Session(Self.new(Self.long), key: SessionKey(ticket), timeouts: timeouts, now: start)
        let sealer = SessionSealer(secrets: Sample.secrets)
        let record = try sealer.seal(session, ticket: ticket)
        expect(record.contents.first == 3 && record.client.first == 3 && sealer.terms(of: record) == Self.long)
        for index in record.client.indices {
            var changed = record
            changed.client[index] ^= 1
            expect(sealer.terms(of: changed) != Self.long, "\(index)")
            guard case .opened = sealer.open(changed, ticket: ticket) else { continue }
            Issue.record("byte \(index) is not authenticated")
        }
        let other = SessionSealer(secrets: SealingKeyring(Sample.olderSecret))
        #expect(try require(other.terms(of: record)).idle > .seconds(400 * 86_400))
        let store = SealedSessionStore(
            InMemoryRecords(RecordServer()), configuration: Self.configuration, secrets: Sample.secrets)
        expect(store.longest.absolute == Self.long.absolute && store.longest.idle > Self.long.idle)
    }
}
