import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// The contract of every session store for the maximum number of sessions of an account.
@Suite("Every session store, for accounts with too many sessions", .timeLimit(.minutes(3)))
struct SurplusContractTests {
    private let start = Sample.start
    private let source = Sample.source

    private func new(_ account: AccountName, typed name: AccountName) -> NewSession {
        var new = Sample.new(1)
        new.user = UserProfile(json: new.user.json, account: account, name: name)
        return new
    }

    /// Creates a session and ends the oldest ones, as a sign-in does.
    private func signIn(
        _ new: NewSession, over limit: Int, at second: Int64, _ store: any SessionStore
    ) async throws -> (ticket: SessionTicket, id: SessionID, ended: [SessionID]) {
        let now = start + .seconds(second)
        let (ticket, session, mayExceed) = try await store.create(new, limit: limit, now: now)
        guard mayExceed else { return (ticket, session.id, []) }
        let ended = try await store.takeOldest(
            of: new.user, over: limit, but: session.id, reason: .replaced, now: now)
        return (ticket, session.id, ended.map(\.id))
    }

    @Test(
        "ends the oldest one if there is one more than there may be, and none of another account",
        arguments: SessionStoreCase.all)
    func oldestFirst(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new(2)) { store, other, _ async throws in
            var made: [(ticket: SessionTicket, id: SessionID)] = []
            for second in 1...6 as ClosedRange<Int64> {
                let (ticket, id, ended) = try await signIn(Sample.new(1), over: 3, at: second, store)
                expect(ended, equals: (made.count < 3 ? [] : [made[made.count - 3].id]))
                made.append((ticket, id))
            }
            for (number, (ticket, _)) in made.enumerated() {
                let lookup = try await store.lookup(ticket, at: start + .seconds(7))
                if number < 3 { expect(lookup.reason, equals: .revoked) } else { expect(lookup.session != nil) }
            }
            try await expect(store.lookup(other, at: start).session != nil)
        }
    }

    @Test("reports with a new one whether there may be more than there may be", arguments: SessionStoreCase.all)
    func mayExceed(kind: SessionStoreCase) async throws {
        try await kind.run(with: Sample.new(2)) { store, _, _ async throws in
            for second in 1...4 as ClosedRange<Int64> {
                let created = try await store.create(Sample.new(1), limit: 2, now: start + .seconds(second))
                expect(created.mayExceed, equals: second > 2)
            }
            try await expect(!store.create(Sample.new(2), limit: 2, now: start).mayExceed)
            // Sessions for which the same name was typed may be those of the user.
            let id = AccountName(userID: "17", source: source)
            try await expect(!store.create(new(id, typed: id), limit: 1, now: start).mayExceed)
            try await expect(store.create(new(id, typed: Sample.account(1)), limit: 4, now: start).mayExceed)
        }
    }

    @Test(
        "does not end the new one if another one is later by the clock of another gateway",
        arguments: SessionStoreCase.all)
    func newStays(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let (_, late) = try await store.create(Sample.new(1), now: start + .seconds(31))
            let (ticket, _, ended) = try await signIn(Sample.new(1), over: 1, at: 0, store)
            expect(ended, equals: [late.id])
            try await expect(store.lookup(ticket, at: start).session != nil)
        }
    }

    @Test("ends all but the latest of sign-ins that find each other, and never all", arguments: SessionStoreCase.all)
    func simultaneous(kind: SessionStoreCase) async throws {
        for limit in [1, 2] {
            try await kind.run { store in
                var made: [(ticket: SessionTicket, id: SessionID, time: SessionTime)] = []
                // All sessions are there before the first one ends others. Two have the same time.
                for second in [0, 10, 10, 5] as [Int64] {
                    let time = start + .seconds(second)
                    let (ticket, session) = try await store.create(Sample.new(1), now: time)
                    made.append((ticket, session.id, time))
                }
                for new in made {
                    _ = try await store.takeOldest(
                        of: Sample.new(1).user, over: limit, but: new.id, reason: .replaced, now: start + .seconds(11))
                }
                let kept = try await store.sessions(of: Sample.account(1), now: start + .seconds(11)).map(\.id)
                expect(kept.count, equals: limit)
                expect(kept.allSatisfy { id in id == made[1].id || id == made[2].id })
            }
        }
    }

    @Test("ends at most 16 at once, the others at the next sign-ins", arguments: SessionStoreCase.all)
    func bounded(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            var ids: [SessionID] = []
            for second in 0..<20 as Range<Int64> {
                ids.append(try await store.create(Sample.new(1), now: start + .seconds(second)).1.id)
            }
            let first = try await signIn(Sample.new(1), over: 3, at: 30, store)
            expect(first.ended, equals: Array(ids[..<16]))
            let second = try await signIn(Sample.new(1), over: 3, at: 31, store)
            expect(second.ended, equals: Array(ids[16..<19]))
            let listed = try await store.sessions(of: Sample.account(1), now: start + .seconds(31))
            expect(listed.map(\.id), equals: [second.id, first.id, ids[19]])
        }
    }

    @Test("does not count expired sessions", arguments: SessionStoreCase.all)
    func expired(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            for _ in 0..<5 { _ = try await store.create(Sample.new(1), now: start) }
            let (kept, used) = try await store.create(Sample.new(1), now: start + .seconds(300))
            let later = kind.idle.wholeMilliseconds / 1_000 + 1
            try await expect(empty: signIn(Sample.new(1), over: 3, at: later, store).ended)
            try await expect(empty: signIn(Sample.new(1), over: 3, at: later + 1, store).ended)
            try await expect(store.lookup(kept, at: start + .seconds(later + 1)).session != nil)
            try await expect(signIn(Sample.new(1), over: 3, at: later + 2, store).ended, equals: [used.id])
        }
    }

    @Test(
        "Rule 35: counts sessions of the typed name without a user id, and none of another user id with that name",
        arguments: SessionStoreCase.all)
    func typedNames(kind: SessionStoreCase) async throws {
        try await kind.run { store in
            let name = Sample.account(1)
            let mine = AccountName(userID: "17", source: source)
            let theirs = AccountName(userID: "18", source: source)
            var others: [SessionTicket] = []
            for second in 0..<3 as Range<Int64> {
                others.append(try await store.create(new(theirs, typed: name), now: start + .seconds(second)).0)
            }
            let (typed, legacy) = try await store.create(Sample.new(1), now: start + .seconds(3))
            try await expect(empty: signIn(new(mine, typed: name), over: 2, at: 4, store).ended)
            try await expect(store.lookup(typed, at: start + .seconds(4)).session != nil)
            try await expect(signIn(new(mine, typed: name), over: 2, at: 5, store).ended, equals: [legacy.id])
            for ticket in others { try await expect(store.lookup(ticket, at: start + .seconds(5)).session != nil) }
        }
    }
}

@Suite("The choice of sessions in excess of a limit")
struct SurplusRuleTests {
    private let now = SessionTime(seconds: 1_000)
    private let rule = SurplusRule(
        limit: 3, accounts: [1, 2], usedAfter: SessionTime(seconds: 900), new: SessionID(99))

    private func record(
        _ id: UInt64, account: UInt64 = 1, at second: Int64 = 500, used: Int64 = 950, ends: Int64 = 2_000
    ) -> SurplusRule.Candidate {
        SurplusRule.Candidate(
            id: SessionID(id), account: account, createdAt: SessionTime(seconds: second),
            expiresAt: SessionTime(seconds: ends), lastUsedAt: SessionTime(seconds: used))
    }

    private func surplus(_ total: Int, _ ids: [UInt64], _ records: [SurplusRule.Candidate]) -> RecordSurplus {
        rule.surplus(
            in: SurplusRule.Sample(total: total, ids: ids.map { SessionID($0) }, records: records), now: now)
    }

    private func chosen(_ ids: Range<UInt64>) -> RecordSurplus { .records(ids.map { SessionID($0) }) }

    @Test("If all ids were checked, ids without an active session do not count")
    func exact() {
        let records = [
            record(3, at: 3), record(1, at: 1), record(2, account: 2, at: 2), record(4), record(99, at: 600),
        ]
        expect(surplus(5, [1, 2, 3, 4, 99], records), equals: chosen(1..<3))
        expect(surplus(9, [1, 2, 3, 4, 5, 6, 7, 8, 99], records), equals: chosen(1..<3))
        expect(surplus(5, [1, 2, 3, 4, 99], Array(records.dropFirst())), equals: chosen(1..<2))
        expect(surplus(5, [1, 2, 3, 4, 99], Array(records.dropFirst(2))), equals: .none)
        let idle = Array(records.dropFirst()) + [record(5, used: 900), record(6, ends: 1_000)]
        expect(surplus(7, [1, 2, 3, 4, 5, 6, 99], idle), equals: chosen(1..<2))
        expect(surplus(0, [], []), equals: .none)
    }

    @Test("If some ids were checked, the others count as they do; the oldest of all are chosen first")
    func estimated() {
        let all = (1...32 as ClosedRange<UInt64>).map { record($0, at: $0 <= 16 ? 100 + Int64($0) : 0) }
        let ids = all.map(\.id.value)
        // All are active: 100, 30 and 300 in excess, of which an eighth is chosen.
        expect(surplus(103, ids, all), equals: chosen(1..<14))
        expect(surplus(33, ids, all), equals: chosen(1..<5))
        expect(surplus(303, ids, all), equals: chosen(1..<17))
        // A quarter of the others has ended: 16 + 64 * 12 / 16 are active.
        let few = SurplusRule(limit: 62, accounts: [1], usedAfter: rule.usedAfter, new: rule.new)
        let sample = SurplusRule.Sample(total: 80, ids: ids.map { SessionID($0) }, records: Array(all.prefix(28)))
        expect(few.surplus(in: sample, now: now), equals: chosen(1..<2))
        let many = SurplusRule(limit: 64, accounts: [1], usedAfter: rule.usedAfter, new: rule.new)
        expect(many.surplus(in: sample, now: now), equals: .none)
        // None of the oldest is active: the others are chosen.
        let late = SurplusRule.Sample(total: 80, ids: sample.ids, records: Array(all.suffix(16)))
        expect(few.surplus(in: late, now: now), equals: chosen(17..<18))
    }

    @Test("The new one is chosen if enough others are later by at most 30 s, whichever of them chooses")
    func moment() {
        let records = [record(1, at: 70), record(2, at: 71), record(3, at: 71), record(4, at: 100), record(5, at: 101)]
        func oldest(_ new: UInt64, limit: Int) -> [UInt64] {
            let rule = SurplusRule(limit: limit, accounts: [1], usedAfter: self.rule.usedAfter, new: SessionID(new))
            return rule.oldest(records.count - limit, of: records).map(\.value)
        }
        for new in 1...5 as ClosedRange<UInt64> {
            expect(oldest(new, limit: 1), equals: [1, 2, 3, 4])
            expect(oldest(new, limit: 3), equals: [1, 2])
        }
        // Of four others, three are later by at most 30 s.
        expect(oldest(1, limit: 4), equals: [2])
        expect(oldest(9, limit: 4), equals: [1])
    }

    @Test("Records of another account make the number unknown, unless they have expired")
    func others() {
        let records = [record(1), record(2), record(3), record(4), record(5, account: 3)]
        expect(surplus(5, [1, 2, 3, 4, 5], records), equals: .unknown)
        let expired = Array(records.dropLast()) + [record(5, account: 3, used: 900)]
        expect(surplus(5, [1, 2, 3, 4, 5], expired), equals: chosen(1..<2))
    }

    @Test("At most 16 are chosen")
    func bounded() {
        let records = (1...40 as ClosedRange<UInt64>).map { record($0, at: Int64($0)) }
        expect(surplus(40, Array(1...40), records), equals: chosen(1..<17))
        expect(rule.oldest(40, of: records), equals: (1...16 as ClosedRange<UInt64>).map { SessionID($0) })
        expect(empty: rule.oldest(-1, of: records))
    }
}
