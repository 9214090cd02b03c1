import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// The contract of every session store for sessions that were signed in to at a provider.
@Suite("Every session store, for sessions of providers", .timeLimit(.minutes(3)))
struct ProviderSessionContractTests {
    private let start = Sample.start

    private func create(
        _ store: any SessionStore, _ provenance: SessionProvenance, at now: SessionTime? = nil
    ) async throws -> (ticket: SessionTicket, session: Session) {
        try await store.create(Sample.new(provenance), now: now ?? start)
    }

    @Test("keeps what the provider stated, whichever optional parts are missing", arguments: SessionStoreCase.all)
    func keepsProvenance(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            var statements = [Sample.provenance(1), Sample.provenance(2, sid: nil), Sample.provenance(3)]
            (statements[1].authenticatedAt, statements[1].acr, statements[1].idToken) = (nil, nil, nil)
            (statements[2].acr, statements[2].idToken, statements[2].claims) = ("", Secret(""), [])
            for statement in statements {
                let made = try await create(store, statement)
                expect(made.session.provenance, equals: statement)
                try await expect(store.lookup(made.ticket, at: start).session?.provenance, equals: statement)
                try await expect(store.reload(made.ticket, now: start).session?.provenance, equals: statement)
                try await expect(store.end(made.ticket, reason: .signedOut, now: start)?.provenance, equals: statement)
            }
            let (ticket, _) = try await store.create(Sample.new(1), now: start)
            let plain = try await require(store.lookup(ticket, at: start).session)
            expect(plain.provenance, equals: nil)
        }
    }

    @Test("carries the provenance through a refresh, or takes the new one", arguments: SessionStoreCase.all)
    func refreshesProvenance(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let made = try await create(store, Sample.provenance(1))
            let lease = try await require(store.lease(made.session.key, for: .seconds(30), now: start).lease)
            let saved = try await store.save(
                SessionUpdate(tokens: Sample.tokens(2)), ticket: made.ticket, over: made.session, under: lease,
                now: start)
            let first = try require(saved.session)
            expect(first.provenance, equals: Sample.provenance(1))
            var next = Sample.provenance(1)
            (next.claims, next.idToken) = (Array(#"{"groups":[]}"#.utf8), Secret("new"))
            let update = SessionUpdate(provenance: next)
            _ = try await store.save(update, ticket: made.ticket, over: first, under: lease, now: start)
            let found = try await require(store.reload(made.ticket, now: start).session)
            expect(found.provenance, equals: next)
            expect(found.tokens, equals: Sample.tokens(2))
            expect(found.source, equals: SessionSource(identity: "company", issuer: Sample.issuer))
            expect(found.version, equals: 3)
        }
    }

    @Test("ends the sessions of a session at a provider, and no others", arguments: SessionStoreCase.all)
    func endsByProviderSession(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let one = try await create(store, Sample.provenance(1, sid: "a"))
            let two = try await create(store, Sample.provenance(1, sid: "a"))
            let others = [
                try await create(store, Sample.provenance(1, sid: "A")),
                try await create(store, Sample.provenance(1, issuer: "https://id.example.org", sid: "a")),
                try await create(store, Sample.provenance(1, sid: nil)),
            ]
            let (plain, _) = try await store.create(Sample.new(1), now: start)
            let session = ProviderSession(issuer: Sample.issuer, id: "a")
            let ended = try await store.takeAll(.provider(session), reason: .revoked, now: start)
            expect(Set(ended.map(\.id)), equals: [one.session.id, two.session.id])
            for made in [one, two] {
                try await expect(store.lookup(made.ticket, at: start).reason, equals: .revoked)
            }
            for made in others { try await expect(store.lookup(made.ticket, at: start).session != nil) }
            try await expect(store.lookup(plain, at: start).session != nil)
            try await expect(empty: store.takeAll(.provider(session), reason: .revoked, now: start))
            expect(!kind.counts || store.count == 4)
        }
    }

    @Test("ends those of one account only, if the provider names one", arguments: SessionStoreCase.all)
    func endsOfAccount(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let mine = try await create(store, Sample.provenance(1))
            let other = try await create(store, Sample.provenance(2))
            let session = ProviderSession(issuer: Sample.issuer, id: "sid-1")
            let account = Sample.provenance(1).account
            let ended = try await store.takeAll(.provider(session, of: account), reason: .revoked, now: start)
            expect(ended.map(\.id), equals: [mine.session.id])
            try await expect(store.lookup(other.ticket, at: start).session != nil)
            let stranger = Sample.provenance(3).account
            try await expect(empty: store.takeAll(.provider(session, of: stranger), reason: .revoked, now: start))
        }
    }

    @Test("finds a session under the provider's session of its last refresh", arguments: SessionStoreCase.all)
    func providerSessionChanges(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let made = try await create(store, Sample.provenance(1, sid: "old"))
            let lease = try await require(store.lease(made.session.key, for: .seconds(30), now: start).lease)
            let update = SessionUpdate(provenance: Sample.provenance(1, sid: "new"))
            _ = try await store.save(update, ticket: made.ticket, over: made.session, under: lease, now: start)
            // A save that is rejected changes nothing.
            let late = SessionUpdate(provenance: Sample.provenance(1, sid: "late"))
            let result = try await store.save(late, ticket: made.ticket, over: made.session, under: lease, now: start)
            expect(result.isChanged)
            func end(_ sid: String) async throws -> [SessionID] {
                let session = ProviderSession(issuer: Sample.issuer, id: sid)
                return try await store.takeAll(.provider(session), reason: .revoked, now: start).map(\.id)
            }
            try await expect(empty: end("old"))
            try await expect(empty: end("late"))
            try await expect(end("new"), equals: [made.session.id])
        }
    }

    @Test("ends the sessions of a subject at all identities with its issuer", arguments: SessionStoreCase.all)
    func endsSubject(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let company = try await create(store, Sample.provenance(1, sid: "a"))
            let partner = try await create(store, Sample.provenance(1, identity: "partner", sid: nil))
            let other = try await create(store, Sample.provenance(2))
            let elsewhere = try await create(store, Sample.provenance(1, issuer: "https://id.example.org"))
            let account = AccountName(issuer: Sample.issuer, subject: "Subject-1")
            try await expect(store.sessions(of: account, now: start).count, equals: 2)
            // Subjects are case-sensitive.
            let folded = AccountName(issuer: Sample.issuer, subject: "subject-1")
            try await expect(empty: store.endAll(of: folded, but: nil, reason: .revoked, now: start))
            let ended = try await store.endAll(of: account, but: nil, reason: .revoked, now: start)
            expect(Set(ended), equals: [company.session.id, partner.session.id])
            for made in [other, elsewhere] {
                try await expect(store.lookup(made.ticket, at: start).session != nil)
            }
        }
    }

    @Test("ends the sessions of an account that were created before a time", arguments: SessionStoreCase.all)
    func endsEarlier(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let time = start + .seconds(10)
            let before = try await create(store, Sample.provenance(1), at: time - .milliseconds(1))
            let at = try await create(store, Sample.provenance(1), at: time)
            let after = try await create(store, Sample.provenance(1), at: time + .milliseconds(1))
            let other = try await create(store, Sample.provenance(2), at: start)
            let now = start + .seconds(20)
            let account = Sample.provenance(1).account
            let nameless = try await create(store, Sample.provenance(1, sid: nil), at: start)
            let late = try await create(store, Sample.provenance(1, sid: nil), at: time)
            var ended = try await store.takeAll(
                .created(account, before: time, isNameless: true), reason: .revoked, now: now)
            expect(ended.map(\.id), equals: [nameless.session.id])
            ended = try await store.takeAll(
                .created(account, before: time, isNameless: false), reason: .revoked, now: now)
            expect(ended.map(\.id), equals: [before.session.id])
            try await expect(store.lookup(before.ticket, at: now).reason, equals: .revoked)
            for made in [at, after, other, late] {
                try await expect(store.lookup(made.ticket, at: now).session != nil)
            }
        }
    }

    @Test("has no session of a provider to end if it has expired", arguments: SessionStoreCase.all)
    func endsExpired(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let made = try await create(store, Sample.provenance(1))
            let later = start + kind.idle
            let session = ProviderSession(issuer: Sample.issuer, id: "sid-1")
            try await expect(empty: store.takeAll(.provider(session), reason: .revoked, now: later))
            try await expect(store.lookup(made.ticket, at: later).reason, equals: .expiredIdle)
        }
    }

    @Test("ends a session at the time that its provider permits", arguments: SessionStoreCase.all)
    func endsBy(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let new = Sample.new(Sample.provenance(1), endsBy: start.wallTime + .seconds(100))
            let (ticket, session) = try await store.create(new, now: start)
            expect(session.expiresAt, equals: start + .seconds(100))
            try await expect(store.lookup(ticket, at: start + .milliseconds(99_999)).session != nil)
            try await expect(store.lookup(ticket, at: start + .seconds(100)).reason, equals: .expiredAbsolute)
            let generous = Sample.new(Sample.provenance(1), endsBy: start.wallTime + .seconds(100_000))
            try await expect(store.create(generous, now: start).1.expiresAt, equals: start + .seconds(3_600))
        }
    }

    @Test(
        "follows a provider that extends a session at a refresh, up to the absolute timeout",
        arguments: SessionStoreCase.all)
    func endsByRefreshed(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let new = Sample.new(Sample.provenance(1), endsBy: start.wallTime + .seconds(100))
            let (ticket, session) = try await store.create(new, now: start)
            var now = start + .seconds(90)
            let lease = try await require(store.lease(session.key, for: .seconds(30), now: now).lease)
            func save(_ endsBy: WallTime?, over session: Session) async throws -> Session {
                let update = SessionUpdate(tokens: Sample.tokens(2, obtainedAt: now), endsBy: endsBy)
                let saved = try await store.save(update, ticket: ticket, over: session, under: lease, now: now)
                return try require(saved.session)
            }
            let extended = try await save(now.wallTime + .seconds(100), over: session)
            expect(extended.expiresAt, equals: start + .seconds(190))
            try await expect(store.lookup(ticket, at: start + .seconds(189)).session?.version, equals: 2)
            now = start + .seconds(95)
            let kept = try await save(nil, over: extended)
            expect(kept.expiresAt, equals: start + .seconds(190))
            let full = try await save(start.wallTime + .seconds(10_000), over: kept)
            expect(full.expiresAt, equals: start + .seconds(3_600))
            try await expect(save(start.wallTime + .seconds(120), over: full).expiresAt, equals: start + .seconds(120))
            try await expect(store.lookup(ticket, at: start + .seconds(120)).reason, equals: .expiredAbsolute)
        }
    }

    @Test("sets each mark once", arguments: SessionStoreCase.all)
    func marks(kind: SessionStoreCase) async throws {
        try await kind.run { try await MarkContract(now: start).check($0, $0) }
    }

    @Test("keeps the latest time of a mark", arguments: SessionStoreCase.all)
    func latestMark(kind: SessionStoreCase) async throws {
        try await kind.run { try await MarkContract(now: start).raise($0, $0) }
    }

    @Test("sets one of a hundred concurrent marks of the same key", arguments: SessionStoreCase.all)
    func markRace(kind: SessionStoreCase) async throws {
        try await kind.run { try await MarkContract(now: start).race($0, $0) }
    }

    @Test("deletes marks after their lifetime", arguments: SessionStoreCase.followingGivenTime)
    func marksExpire(kind: SessionStoreCase) async throws {
        try await kind.run { store async throws in
            let key = MarkKey(.logoutToken, hash: 1)
            let minute = Duration.seconds(60)
            try await expect(store.setMark([key], lifetime: minute, now: start))
            let last = start + .milliseconds(59_999)
            try await expect(store.hasMark([key], now: last))
            try await expect(!store.setMark([key], lifetime: minute, now: last))
            let end = start + minute
            try await expect(!store.hasMark([key], now: end))
            try await expect(store.setMark([key], lifetime: minute, now: end))
            try await expect(store.hasMark([key], now: end + .milliseconds(59_999)))
            try await expect(!store.hasMark([key], now: end + minute))
        }
    }
}

/// The contract of every session store that replicas share, for sessions of providers.
@Suite("Every session store that replicas share, for sessions of providers", .timeLimit(.minutes(3)))
struct ProviderReplicaContractTests {
    private let start = Sample.start

    @Test("ends a session on all replicas when its provider reports a logout", arguments: SessionStoreCase.shared)
    func endsEverywhere(kind: SessionStoreCase) async throws {
        try await kind.runTwo { one, other in
            let (ticket, _) = try await one.create(Sample.new(Sample.provenance(1)), now: start)
            let found = try await require(other.lookup(ticket, at: start).session)
            expect(found.provenance, equals: Sample.provenance(1))
            let session = ProviderSession(issuer: Sample.issuer, id: "sid-1")
            try await expect(one.takeAll(.provider(session), reason: .revoked, now: start).count, equals: 1)
            try await eventually("it is removed") { other.lookup(ticket, now: start, slides: false).session == nil }
            try await expect(other.lookup(ticket, at: start).reason, equals: .revoked)
        }
    }

    @Test("A mark that one replica sets exists on the others", arguments: SessionStoreCase.shared)
    func marks(kind: SessionStoreCase) async throws {
        try await kind.runTwo { one, other in
            try await MarkContract(now: start).check(one, other)
            try await MarkContract(now: start).raise(one, other)
        }
    }
}
