import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The store of sealed sessions, after a change of the secrets", .timeLimit(.minutes(1)))
struct ResealedSessionTests: SealedStoreSuite {
    let setup = SealedStoreSetup()

    @Test("ends no session when the secret changes, and reseals the sessions that it reads")
    func rotation() async throws {
        let old = store(secrets: SealingKeyring(Sample.olderSecret))
        let (ticket, made) = try await old.create(Sample.new(1), now: start)
        let (silent, _) = try await old.create(Sample.new(1), now: start)
        let both = store(secrets: SealingKeyring(Sample.secret, older: [Sample.olderSecret]))
        try await expect(both.sessions(of: Sample.account(1), now: start).count, equals: 2)
        try await expect(both.lookup(ticket, at: start).session?.tokens, equals: Sample.tokens(1))
        expect(server.record(made.id)?.version, equals: 2)
        try await expect(both.sessions(of: Sample.account(1), now: start).count, equals: 2)
        let new = store(secrets: SealingKeyring(Sample.secret))
        try await expect(new.lookup(ticket, at: start).session?.user, equals: Sample.user(1))
        try await expect(new.lookup(silent, at: start).session == nil)
        try await expect(both.endAll(of: Sample.account(1), but: nil, reason: .revoked, now: start).count, equals: 2)
    }

    @Test("finds the sessions of a provider under all secrets, and keeps their provenance when it reseals them")
    func rotationOfProviders() async throws {
        let old = store(secrets: SealingKeyring(Sample.olderSecret))
        let both = store(secrets: SealingKeyring(Sample.secret, older: [Sample.olderSecret]))
        let (ticket, made) = try await old.create(Sample.new(Sample.provenance(1)), now: start)
        let (silent, _) = try await old.create(Sample.new(Sample.provenance(1)), now: start)
        let before = server.record(made.id)?.provider
        try await expect(both.lookup(ticket, at: start).session?.provenance, equals: Sample.provenance(1))
        expect(server.record(made.id)?.version, equals: 2)
        expect(server.record(made.id)?.provider != before)
        let new = store(secrets: SealingKeyring(Sample.secret))
        try await expect(new.lookup(ticket, at: start).session?.provenance, equals: Sample.provenance(1))
        let session = ProviderSession(issuer: Sample.issuer, id: "sid-1")
        let account = Sample.provenance(1).account
        try await expect(both.takeAll(.provider(session, of: account), reason: .revoked, now: start).count, equals: 2)
        for ticket in [ticket, silent] { try await expect(both.lookup(ticket, at: start).reason, equals: .revoked) }
    }

    @Test("compares the sessions under all secrets with the limit, though a new one is listed under the newest only")
    func rotationAtLimit() async throws {
        let old = store(secrets: SealingKeyring(Sample.olderSecret))
        for _ in 1...2 { _ = try await old.create(Sample.new(1), now: start) }
        let both = store(secrets: SealingKeyring(Sample.secret, older: [Sample.olderSecret]))
        let (_, new, mayExceed) = try await both.create(Sample.new(1), limit: 1, now: start)
        expect(mayExceed)
        let ended = try await both.takeOldest(of: new.user, over: 1, but: new.id, reason: .replaced, now: start)
        expect(ended.count, equals: 1)
    }

    @Test("does not conflict with a token refresh when it reseals")
    func rotationUnderLease() async throws {
        let old = store(secrets: SealingKeyring(Sample.olderSecret))
        let (ticket, made) = try await old.create(Sample.new(1), now: start)
        let both = store(secrets: SealingKeyring(Sample.secret, older: [Sample.olderSecret]))
        let lease = try await require(both.lease(made.key, for: .seconds(30), now: start).lease)
        let read = try await require(both.reload(ticket, now: start).session)
        expect(read.version, equals: 1)
        let refresh = SessionUpdate(tokens: Sample.tokens(2))
        let saved = try await both.save(refresh, ticket: ticket, over: read, under: lease, now: start)
        expect(saved.session?.version, equals: 2)
        let new = store(secrets: SealingKeyring(Sample.secret))
        try await expect(new.lookup(ticket, at: start).session?.tokens, equals: Sample.tokens(2))
    }

    @Test("two replicas with secrets in opposite order do not reseal a session alternately")
    func reversedSecrets() async throws {
        let one = store(secrets: SealingKeyring(Sample.secret, older: [Sample.olderSecret]))
        let other = store(
            InMemoryRecords(server), secrets: SealingKeyring(Sample.olderSecret, older: [Sample.secret]))
        let (ticket, _) = try await one.create(Sample.new(1), now: start)
        for second in 0..<300 as Range<Int64> {
            for replica in [one, other] {
                // Simulates the notification of the other replica's write.
                replica.allRecordsChanged()
                try await expect(replica.lookup(ticket, at: start + .seconds(second), slides: false).session != nil)
            }
        }
        #expect(server.replaceCount <= 2)
        // At most once in 10 minutes, on each replica.
        for minute in 1...14 as ClosedRange<Int64> {
            for replica in [one, other] {
                replica.allRecordsChanged()
                try await expect(replica.lookup(ticket, at: start + .seconds(60 * minute)).session != nil)
            }
        }
        #expect(server.replaceCount <= 6)
    }
}
