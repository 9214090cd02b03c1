import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// The contract of every session store for session management by users and operators.
@Suite("Every session store, for the sessions of an account", .timeLimit(.minutes(3)))
struct AccountContractTests {
    private let start = Sample.start

    @Test("lists them, the latest first, and no other account's", arguments: SessionStoreCase.all)
    func lists(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            var mine: [Session] = []
            for second in 0..<5 {
                mine.append(try await store.create(Sample.new(1), now: start + .seconds(Int64(second))).1)
                _ = try await store.create(Sample.new(2), now: start)
            }
            let listed = try await store.sessions(of: Sample.account(1), now: start + .seconds(10))
            expect(listed, equals: mine.reversed().map(\.summary))
            expect(listed.allSatisfy { $0.client == Sample.client })
            try await expect(empty: store.sessions(of: Sample.account(3), now: start))
        }
    }

    @Test("omits expired sessions", arguments: SessionStoreCase.all)
    func listsLiveOnes(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new(1)) { store, ended, _ async throws in
            _ = try await store.create(Sample.new(1), now: start)
            let young = try await store.create(Sample.new(1), now: start + .seconds(600)).1
            _ = try await store.end(ended, reason: .signedOut, now: start)
            try await expect(store.sessions(of: Sample.account(1), now: start + .seconds(600)).count, equals: 2)
            let later = try await store.sessions(of: Sample.account(1), now: start + kind.idle)
            expect(later.map(\.id), equals: [young.id])
        }
    }

    @Test("returns the time of a session's last use", arguments: SessionStoreCase.all)
    func showsUse(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new(1)) { store, ticket, _ async throws in
            // Uses are recorded at most once in an eighth of the idle timeout.
            let use = start + kind.idle / 8
            _ = try await store.lookup(ticket, at: use)
            let listed = try await store.sessions(of: Sample.account(1), now: use + .seconds(10))
            expect(listed.map(\.lastUsedAt), equals: [use])
        }
    }

    @Test("ends one by its name, once", arguments: SessionStoreCase.all)
    func endsOne(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new(1)) { store, ticket, session async throws in
            let (other, _) = try await store.create(Sample.new(1), now: start)
            try await expect(store.lookup(ticket, at: start).session != nil)
            try await expect(store.end(session.id, of: Sample.account(1), reason: .revoked, now: start))
            try await expect(!store.end(session.id, of: Sample.account(1), reason: .revoked, now: start))
            try await expect(store.lookup(ticket, at: start).reason, equals: .revoked)
            try await expect(store.lookup(other, at: start).session != nil)
            try await expect(!store.end(SessionID(1), of: nil, reason: .revoked, now: start))
            expect(!kind.counts || store.count == 1)
        }
    }

    @Test("does not end another account's session, except for an operator", arguments: SessionStoreCase.all)
    func endsOwnOnly(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new(1)) { store, ticket, session async throws in
            try await expect(!store.end(session.id, of: Sample.account(2), reason: .revoked, now: start))
            try await expect(store.lookup(ticket, at: start).session != nil)
            try await expect(store.end(session.id, of: nil, reason: .revoked, now: start))
            try await expect(store.lookup(ticket, at: start).reason, equals: .revoked)
        }
    }

    @Test(
        "Rule 35: lists and ends by the account; for an operator also by the typed name",
        arguments: SessionStoreCase.all)
    func accountAndName(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let account = AccountName(userID: "17", source: Sample.source)
            func signIn(_ email: String) async throws -> Session {
                var new = Sample.new(1)
                new.user = UserProfile(json: new.user.json, account: account, name: AccountName(email: email))
                return try await store.create(new, now: start).1
            }
            let one = try await signIn("j\u{f6}@example.com")
            let other = try await signIn("jo@example.com")
            // An account of that name at an upstream without user ids.
            var named = Sample.new(2)
            named.user.account = AccountName(email: "jo@example.com")
            named.user.name = named.user.account
            let (ticket, _) = try await store.create(named, now: start)
            try await expect(Set(store.sessions(of: account, now: start).map(\.id)), equals: [one.id, other.id])
            try await expect(empty: store.sessions(of: one.user.name, now: start))
            try await expect(store.sessions(of: other.user.name, now: start).count, equals: 1)
            try await expect(!store.end(other.id, of: other.user.name, reason: .revoked, now: start))
            let ended = try await store.endAll(of: other.user.name, but: nil, reason: .revoked, now: start)
            expect(ended.count == 2 && ended.contains(other.id))
            try await expect(store.lookup(ticket, at: start).reason, equals: .revoked)
            try await expect(store.endAll(of: account, but: nil, reason: .revoked, now: start), equals: [one.id])
            expect(!kind.counts || store.count == 0)
        }
    }

    @Test("Rule 34: keeps the source of a session, also across a token refresh", arguments: SessionStoreCase.all)
    func keepsSource(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new(1)) { store, ticket, made async throws in
            expect(made.source, equals: Sample.source)
            try await expect(store.load(ticket, now: start).session?.source, equals: Sample.source)
            let lease = try await require(store.lease(made.key, for: .seconds(30), now: start).lease)
            let refresh = SessionUpdate(tokens: Sample.tokens(2))
            let saved = try await store.save(refresh, ticket: ticket, over: made, under: lease, now: start)
            expect(saved.session?.source, equals: Sample.source)
            try await expect(store.reload(ticket, now: start).session?.source, equals: Sample.source)
        }
    }

    @Test(
        "Rule 40: returns the tokens of sessions ended by name if it can open them; for sealed sessions it cannot",
        arguments: SessionStoreCase.all)
    func endedTokens(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let one = try await store.create(Sample.new(1), now: start).1
            _ = try await store.create(Sample.new(1), now: start)
            let taken = try await store.take(one.id, of: Sample.account(1), reason: .revoked, now: start)
            let all = try await store.takeAll(.account(Sample.account(1)), reason: .revoked, now: start)
            for ended in try [require(taken)] + all {
                expect(ended.opened?.tokens, equals: (kind.isShared ? nil : Sample.tokens(1)))
            }
            expect(all.count, equals: 1)
        }
    }

    @Test("has no session to end if it has expired", arguments: SessionStoreCase.all)
    func endsExpired(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new(1)) { store, ticket, session async throws in
            let later = start + kind.idle
            try await expect(!store.end(session.id, of: nil, reason: .revoked, now: later))
            try await expect(store.lookup(ticket, at: later).reason, equals: .expiredIdle)
            _ = try await store.create(Sample.new(2), now: start)
            try await expect(empty: store.endAll(of: Sample.account(2), but: nil, reason: .revoked, now: later))
        }
    }

    @Test("Rule 24: ends all but the kept one, also if one of them has ended already", arguments: SessionStoreCase.all)
    func endsAll(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            var made: [(ticket: SessionTicket, session: Session)] = []
            for _ in 0..<5 {
                let (ticket, session) = try await store.create(Sample.new(1), now: start)
                made.append((ticket, session))
            }
            let (stranger, _) = try await store.create(Sample.new(2), now: start)
            _ = try await store.end(made[4].ticket, reason: .signedOut, now: start)
            let ended = try await store.endAll(
                of: Sample.account(1), but: made[0].session.id, reason: .revoked, now: start)
            expect(Set(ended), equals: Set(made[1...3].map(\.session.id)))
            for one in made[1...] { try await expect(store.lookup(one.ticket, at: start).reason, equals: .revoked) }
            try await expect(store.lookup(made[0].ticket, at: start).session != nil)
            try await expect(store.lookup(stranger, at: start).session != nil)
            try await expect(
                store.endAll(of: Sample.account(1), but: nil, reason: .revoked, now: start),
                equals: [made[0].session.id])
            try await expect(store.lookup(made[0].ticket, at: start).reason, equals: .revoked)
            expect(!kind.counts || store.count == 1)
        }
    }

    @Test("counts an attempt under all keys or under none, and removes it", arguments: SessionStoreCase.all)
    func throttle(kind: SessionStoreCase) async throws {
        try await kind.runTwo { one, two in
            let other = kind.isShared ? two : one
            try await ThrottleContract(now: start).check(one, other)
            try await ThrottleContract(now: start).checkGroups(other)
        }
    }

    @Test("admits as many of a hundred concurrent attempts as the rule", arguments: SessionStoreCase.all)
    func throttleRace(kind: SessionStoreCase) async throws {
        try await kind.runTwo { try await ThrottleContract(now: start).race($0, kind.isShared ? $1 : $0) }
    }

    @Test("deletes throttle states after their lifetime", arguments: SessionStoreCase.followingGivenTime)
    func throttleExpires(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let key = ThrottleKey(.address, hash: 1)
            let minute = Duration.seconds(60)
            let counter = ThrottleCounter(
                key, ThrottleRule(limit: 9, window: minute, delay: .window, maxDelay: .seconds(90)))
            for _ in 0..<2 { _ = try await store.countAttempt([counter], now: start) }
            try await expect(store.throttleStates([key], now: start + .milliseconds(59_999))[0]?.count, equals: 2)
            try await expect(store.throttleStates([key], now: start + minute), equals: [nil])
            let later = start + minute
            let expected = ThrottleResult([counter], [nil], now: later)
            try await expect(store.countAttempt([counter], now: later), equals: expected)
        }
    }
}
