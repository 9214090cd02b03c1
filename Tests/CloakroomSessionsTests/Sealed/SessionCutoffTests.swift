import CloakroomCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The store of sealed sessions, for cutoffs", .timeLimit(.minutes(1)))
struct SessionCutoffTests: SealedStoreSuite {
    let setup = SealedStoreSetup()
    private let account = Sample.account(1)

    /// The same server, seen by another gateway.
    private func replica(_ secrets: SealingKeyring = Sample.secrets) -> SealedSessionStore<InMemoryRecords> {
        store(InMemoryRecords(server), secrets: secrets)
    }

    @Test("Rule 71: a session whose index entry was lost ends with signing out everywhere, on all gateways")
    func lostEntry() async throws {
        let other = replica()
        let running = Task { await other.run() }
        try await eventually("the changes are reported") { !server.contents.withLock { $0.listeners.isEmpty } }
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        let (listed, _) = try await store.create(Sample.new(1), now: start)
        server.loseIndexEntries(of: session.id)
        for store in [store, other] { try await expect(store.lookup(ticket, at: start).session != nil) }
        try await expect(store.endAll(of: account, but: nil, reason: .revoked, now: start).count, equals: 1)
        expect(server.record(session.id) != nil)
        for store in [store, other] {
            expect(isUnknown(store.lookup(ticket, now: start, slides: false)))
            try await expect(store.load(ticket, now: start).reason, equals: .revoked)
            try await expect(store.lookup(listed, at: start).reason, equals: .revoked)
        }
        // The first load has removed the record.
        expect(server.record(session.id), equals: nil)
        expect(told.ended, equals: [.revoked, .revoked])
        running.cancel()
        await running.value
    }

    @Test("Rule 71: the same holds for a session at a provider, and for a time before which sessions were created")
    func lostEntryOfProvider() async throws {
        let (first, one) = try await store.create(Sample.new(Sample.provenance(1)), now: start)
        let (second, two) = try await store.create(Sample.new(Sample.provenance(2)), now: start)
        let (third, three) = try await store.create(Sample.new(Sample.provenance(2)), now: start + .seconds(1))
        for session in [one, two, three] { server.loseIndexEntries(of: session.id) }
        let session = ProviderSession(issuer: Sample.issuer, id: "sid-1")
        let now = start + .seconds(2)
        _ = try await store.takeAll(
            .created(Sample.provenance(2).account, before: start + .seconds(1), isNameless: false), reason: .revoked,
            now: now)
        try await expect(store.lookup(first, at: now).session != nil)
        try await expect(store.lookup(second, at: now).reason, equals: .revoked)
        try await expect(store.lookup(third, at: now).session != nil)
        _ = try await store.takeAll(.provider(session), reason: .revoked, now: now)
        for ticket in [first, third] { try await expect(store.lookup(ticket, at: now).reason, equals: .revoked) }
    }

    @Test("Rule 71: the same holds for a user's session at a provider, unless other users are listed with it")
    func lostEntryOfUser() async throws {
        let session = ProviderSession(issuer: Sample.issuer, id: "sid-1")
        let account = Sample.provenance(1).account
        func logOut(at now: SessionTime) async throws -> Int {
            try await store.takeAll(.provider(session, of: account), reason: .revoked, now: now).count
        }
        let (lost, one) = try await store.create(Sample.new(Sample.provenance(1)), now: start)
        let (elsewhere, _) = try await store.create(Sample.new(Sample.provenance(1, sid: "sid-2")), now: start)
        server.loseIndexEntries(of: one.id)
        try await expect(logOut(at: start), equals: 0)
        try await expect(store.lookup(lost, at: start).reason, equals: .revoked)
        try await expect(store.lookup(elsewhere, at: start).session != nil)
        let (other, _) = try await store.create(Sample.new(Sample.provenance(2)), now: start)
        let (mine, _) = try await store.create(Sample.new(Sample.provenance(1)), now: start)
        try await expect(logOut(at: start), equals: 1)
        try await expect(store.lookup(mine, at: start).reason, equals: .revoked)
        for ticket in [other, elsewhere] { try await expect(store.lookup(ticket, at: start).session != nil) }
    }

    @Test("Rule 73: a cutoff that cannot be read makes the store unavailable; the session is neither alive nor ended")
    func unreadable() async throws {
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        records.set { $0.cutoffsAreUnavailable = true }
        await #expect(throws: SessionStoreError(.unavailable)) { try await store.load(ticket, now: start) }
        await #expect(throws: SessionStoreError(.unavailable)) { try await store.reload(ticket, now: start) }
        await #expect(throws: SessionStoreError(.unavailable)) { try await store.sessions(of: account, now: start) }
        await #expect(throws: SessionStoreError(.unavailable)) {
            try await store.endAll(of: account, but: session.id, reason: .revoked, now: start)
        }
        expect(isUnknown(store.lookup(ticket, now: start, slides: false)))
        expect(server.record(session.id) != nil)
        records.set { $0.cutoffsAreUnavailable = false }
        try await expect(store.load(ticket, now: start).session != nil)
        // The holder of the ticket can sign out nevertheless.
        records.set { $0.cutoffsAreUnavailable = true }
        store.allRecordsChanged()
        try await expect(store.end(ticket, reason: .signedOut, now: start)?.id, equals: session.id)
        expect(server.record(session.id), equals: nil)
    }

    @Test("A cutoff that cannot be set at first is set again after the listed sessions were removed")
    func setAgain() async throws {
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        let (lost, unlisted) = try await store.create(Sample.new(1), now: start)
        server.loseIndexEntries(of: unlisted.id)
        records.set { $0.failsNextCutoff = true }
        try await expect(store.endAll(of: account, but: nil, reason: .revoked, now: start), equals: [session.id])
        for ticket in [ticket, lost] { try await expect(store.lookup(ticket, at: start).reason, equals: .revoked) }
    }

    @Test("Sessions that were ended before a failure are reported with it, and the others when they are ended")
    func endedBeforeFailure() async throws {
        let records = InMemoryRecords(server, partitions: 1 << 20)
        let store = self.store(records)
        for _ in 1...3 { _ = try await store.create(Sample.new(1), now: start) }
        let hash = Sample.secrets.accountHashes.candidateHashes(account)[0]
        // The order of this list is kept while nothing is removed.
        let listed = try await records.records(in: .account(hash), now: start).map(\.key.id)
        records.set { $0.unremovablePartitions = [records.partition(of: listed[2])] }
        do {
            _ = try await store.takeAll(.account(account), reason: .revoked, now: start)
            Issue.record("no error")
        } catch {
            expect(error, equals: SessionStoreError(.unavailable))
            expect(error.ended.map(\.id), equals: Array(listed[..<2]))
        }
        records.set { $0.unremovablePartitions = [] }
        try await expect(store.endAll(of: account, but: nil, reason: .revoked, now: start), equals: [listed[2]])
    }

    @Test("Rule 40: sessions that were ended are reported, also if their cutoff cannot be set")
    func endedWithoutCutoff() async throws {
        let (_, session) = try await store.create(Sample.new(1), now: start)
        records.set { $0.cutoffsAreUnavailable = true }
        do {
            _ = try await store.takeAll(.account(account), reason: .revoked, now: start)
            Issue.record("no error")
        } catch {
            expect(error.ended.map(\.id), equals: [session.id])
        }
    }

    @Test("Rule 71: a session that an earlier cutoff has ended is not revived by a later one that keeps it")
    func keptAfterEnd() async throws {
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        server.loseIndexEntries(of: session.id)
        _ = try await store.endAll(of: account, but: nil, reason: .revoked, now: start)
        expect(server.record(session.id) != nil)
        _ = try await store.endAll(of: account, but: session.id, reason: .revoked, now: start)
        try await expect(store.lookup(ticket, at: start).reason, equals: .revoked)
    }

    @Test("A cutoff that is set while a session is read is found by all requests that begin after it")
    func duringRead() async throws {
        let other = replica()
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        server.loseIndexEntries(of: session.id)
        let gate = Gate()
        records.set { $0.duringCutoffRead = { await gate.passed() } }
        let start = start
        let slow = Task { try await store.load(ticket, now: start) }
        await gate.waitForArrival()
        records.set { $0.duringCutoffRead = nil }
        _ = try await other.endAll(of: account, but: nil, reason: .revoked, now: start)
        // The report of the change.
        store.cutoffChanged(.account(Sample.secrets.accountHashes.hash(account)))
        try await expect(store.load(ticket, now: start).reason, equals: .revoked)
        gate.open()
        // Its read was before the cutoff.
        try await expect(slow.value.session != nil)
        expect(isUnknown(store.lookup(ticket, now: start, slides: false)))
        try await expect(store.load(ticket, now: start).reason, equals: .revoked)
    }

    @Test("An own cutoff whose result is unknown counts from then on: what was read meanwhile is not used")
    func uncertain() async throws {
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        server.loseIndexEntries(of: session.id)
        try await expect(store.lookup(ticket, at: start).session != nil)
        records.set { $0.losesResponses = true }
        await #expect(throws: SessionStoreError(.unavailable)) {
            try await store.endAll(of: account, but: nil, reason: .revoked, now: start)
        }
        records.set { $0.losesResponses = false }
        expect(isUnknown(store.lookup(ticket, now: start, slides: false)))
        try await expect(store.load(ticket, now: start).reason, equals: .revoked)
    }

    @Test("A sign-in whose session is not stored yet ends with the others; one that begins after the cutoff does not")
    func duringSignIn() async throws {
        let gate = Gate()
        records.set { $0.duringInsert = { await gate.passed() } }
        let start = start
        let slow = Task { try await store.create(Sample.new(1), now: start) }
        await gate.waitForArrival()
        records.set { $0.duringInsert = nil }
        _ = try await store.endAll(of: account, but: nil, reason: .revoked, now: start)
        let (later, _) = try await store.create(Sample.new(1), now: start)
        gate.open()
        let (ticket, _) = try await slow.value
        try await expect(store.lookup(ticket, at: start).reason, equals: .revoked)
        try await expect(store.lookup(later, at: start).session != nil)
    }

    @Test("A refresh that saves new tokens after a cutoff does not bring the session back")
    func duringRefresh() async throws {
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        server.loseIndexEntries(of: session.id)
        try await expect(store.lookup(ticket, at: start).session != nil)
        let lease = try await require(store.lease(session.key, for: .seconds(30), now: start).lease)
        _ = try await store.endAll(of: account, but: nil, reason: .revoked, now: start)
        let update = SessionUpdate(tokens: Sample.tokens(2))
        try await expect(store.save(update, ticket: ticket, over: session, under: lease, now: start).isNotFound)
        try await expect(store.reload(ticket, now: start).reason, equals: .revoked)
    }

    @Test("A cutoff holds for a session that another secret reseals, before and after that")
    func resealed() async throws {
        let both = SealingKeyring(Sample.secret, older: [Sample.olderSecret])
        let old = store(secrets: SealingKeyring(Sample.olderSecret))
        let (before, one) = try await old.create(Sample.new(1), now: start)
        let (after, two) = try await old.create(Sample.new(1), now: start)
        for session in [one, two] { server.loseIndexEntries(of: session.id) }
        let store = replica(both)
        try await expect(store.lookup(before, at: start).session != nil)
        expect(server.record(one.id)?.version, equals: 2)
        _ = try await store.endAll(of: account, but: nil, reason: .revoked, now: start)
        // Only a gateway with both secrets can open the second one, which was not resealed.
        expect(server.record(two.id)?.version, equals: 1)
        for ticket in [before, after] { try await expect(store.lookup(ticket, at: start).reason, equals: .revoked) }
    }

    @Test("A cutoff of the typed name ends sessions of the account, for an operator; one of the account ends all")
    func typedName() async throws {
        func signIn(_ name: String) async throws -> SessionTicket {
            var new = Sample.new(1)
            new.user = UserProfile(
                json: new.user.json, account: AccountName(userID: "17", source: Sample.source),
                name: AccountName(email: name))
            let (ticket, session) = try await store.create(new, now: start)
            server.loseIndexEntries(of: session.id)
            return ticket
        }
        let (one, other) = (try await signIn("jo@example.com"), try await signIn("mia@example.com"))
        _ = try await store.endAll(of: AccountName(email: "jo@example.com"), but: nil, reason: .revoked, now: start)
        try await expect(store.lookup(one, at: start).reason, equals: .revoked)
        try await expect(store.lookup(other, at: start).session != nil)
        let account = AccountName(userID: "17", source: Sample.source)
        _ = try await store.endAll(of: account, but: nil, reason: .revoked, now: start)
        try await expect(store.lookup(other, at: start).reason, equals: .revoked)
    }

    @Test("A record of a release without cutoffs is compared by the time of its creation")
    func withoutBirth() async throws {
        let (old, session) = try await store.create(Sample.new(1), now: start)
        let (late, next) = try await store.create(Sample.new(1), now: start + .milliseconds(1))
        for id in [session.id, next.id] {
            server.damage(id) { $0.birth = RecordBirth() }
            server.loseIndexEntries(of: id)
        }
        server.contents.withLock { $0.births = [:] }
        _ = try await store.endAll(of: account, but: nil, reason: .revoked, now: start)
        try await expect(store.lookup(old, at: start).reason, equals: .revoked)
        try await expect(store.lookup(late, at: start).session != nil)
    }

    @Test("Rule 72: a lost partition forgets only what was read from it, the record or a cutoff")
    func lostPartition() async throws {
        let records = InMemoryRecords(server, partitions: 1_024)
        let store = store(records)
        var made: [(ticket: SessionTicket, partitions: Set<Int>)] = []
        for number in 0..<20 {
            let (ticket, session) = try await store.create(Sample.new(number), now: start)
            let index = RecordIndex.account(Sample.secrets.accountHashes.hash(Sample.account(number)))
            made.append((ticket, [records.partition(of: session.id), records.partition(ofIndex: index)]))
            try await expect(store.lookup(ticket, at: start).session != nil)
        }
        for lost in made.flatMap({ Array($0.partitions) }) {
            store.partitionsChanged([lost..<lost + 1], areTrusted: false, afterOutage: false)
            for (ticket, partitions) in made {
                expect(isUnknown(store.lookup(ticket, now: start, slides: false)), equals: partitions.contains(lost))
                try await expect(store.load(ticket, now: start).session != nil)
            }
            expect(store.isAvailable)
            store.partitionsChanged([lost..<lost + 1], areTrusted: true, afterOutage: true)
            for (ticket, _) in made {
                try await expect(store.load(ticket, now: start).session != nil)
                expect(store.lookup(ticket, now: start, slides: false).session != nil)
            }
        }
        let key = SessionKey(made[0].ticket)
        expect(!store.allowsNewRefreshes(of: key))
        store.partitionsChanged([0..<1_024], areTrusted: false, afterOutage: false)
        expect(!store.isAvailable)
    }

    @Test("asks once for the cutoff of an account, and again after a change of it or of its partition")
    func remembers() async throws {
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        _ = try await store.load(ticket, now: start)
        let count = server.cutoffReadCount
        for _ in 0..<3 { _ = try await store.reload(ticket, now: start) }
        expect(server.cutoffReadCount, equals: count)
        store.cutoffChanged(.account(Sample.secrets.accountHashes.hash(account)))
        _ = try await store.reload(ticket, now: start)
        expect(server.cutoffReadCount, equals: count + 1)
        store.connectionChanged(isUp: false)
        for _ in 0..<2 { _ = try await store.reload(ticket, now: start) }
        expect(server.cutoffReadCount, equals: count + 3)
        // What is read without a connection for changes is not remembered.
        store.connectionChanged(isUp: true)
        _ = try await store.endAll(of: account, but: session.id, reason: .revoked, now: start)
        let set = server.cutoffReadCount
        for number in 1...3 {
            try await expect(store.reload(ticket, now: start).session != nil)
            expect(server.cutoffReadCount, equals: set + number)
        }
    }
}
