import CloakroomCore
import NIOCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// The specifics of a real server; the contract of all stores covers everything else.
@Suite("Records in a real server", .serialized, .timeLimit(.minutes(3)))
struct ValkeyRecordStoreTests {
    private static let start = SessionRecord.start

    @Test("Extreme values are read back unchanged")
    func extremes() async throws {
        try await withValkeyStore { store, _ async throws in
            var record = SessionRecord.sample(.max, account: .max, version: .max)
            record.expiresAt = SessionTime(milliseconds: .max)
            record.createdAt = SessionTime(milliseconds: .min)
            record.contents = (0..<100_000).map { UInt8(truncatingIfNeeded: $0) }
            record.client = []
            try await expect(store.insert(record, keepUntil: SessionTime(milliseconds: .max), now: Self.start))
            try await expect(store.read(record.id), equals: .record(record))
        }
    }

    @Test("An index with more ids than an account can have is an error, and none of its records is read")
    func longIndex() async throws {
        try await withValkeyStore { store, server in
            let record = SessionRecord.sample()
            _ = try await store.insert(record)
            var limited = store
            limited.listLimit = 3
            let index = store.keys.sessions(of: record.account)
            for number in 101...102 {
                try await server.ask("ZADD", .text(index), "\(number)", "\(SessionID(UInt64(number)))")
            }
            try await expect(limited.records(in: .account(record.account), now: Self.start), equals: [record.listed])
            try await server.ask("ZADD", .text(index), "103", "\(SessionID(103))")
            try await server.ask("CONFIG", "RESETSTAT")
            let error = await #expect(throws: SessionStoreError.self) {
                try await limited.records(in: .account(record.account), now: Self.start)
            }
            expect(error?.kind == .unavailable && error?.reason == .protocolError)
            let calls = try await server.calls()
            expect(calls["zrange"] != nil && calls["hmget"] == nil)
            try await expect(store.records(in: .account(record.account), now: Self.start), equals: [record.listed])
        }
    }

    @Test("A lease expires by the server's clock, and its holder may still save until there is another lease")
    func leaseEnds() async throws {
        try await withValkeyStore { store, server in
            let record = SessionRecord.sample()
            _ = try await store.insert(record)
            _ = try await store.lease(record.id, for: .milliseconds(1), now: Self.start)
            try await eventually("the lease has expired") {
                try await server.ask("EXISTS", .text(store.keys.lease(record.id))) == .integer(0)
            }
            try await expect(store.replace(.sample(version: 2), fence: 1, now: Self.start), equals: .done)
            let next = try await store.lease(record.id, for: .seconds(30), now: Self.start)
            expect(next, equals: .acquired(RefreshLease(fence: 2)))
        }
    }

    @Test("Rule 24: a session is in its account's index before its record exists, and stays while others end")
    func indexFirst() async throws {
        try await withValkeyStore { store, server in
            // The record cannot be written: a crash between the two writes leaves a name without a record.
            let record = SessionRecord.sample()
            try await server.ask("SET", .text(store.keys.session(record.id)), "foreign")
            try await expect(store.insert(record), equals: false)
            try await server.ask("DEL", .text(store.keys.session(record.id)))
            try await server.ask("ZADD", .text(store.keys.sessions(of: 7)), "99999999999999", .text("\(record.id)"))
            try await expect(empty: store.records(in: .account(7), now: Self.start))
            // The list does not remove the name, because its record may still be written.
            try await expect(store.insert(record))
            try await expect(store.records(in: .account(7), now: Self.start), equals: [record.listed])
            _ = try await store.insert(.sample(2))
            _ = try await store.remove(SessionID(2), reason: .signedOut, condition: nil, now: Self.start)
            try await expect(store.records(in: .account(7), now: Self.start), equals: [record.listed])
        }
    }

    @Test("Names in the index are removed once the server has expired their records")
    func indexIsPruned() async throws {
        try await withValkeyStore { store, server in
            let index = store.keys.sessions(of: 7)
            try await server.ask("ZADD", .text(index), "1000", "00000000000000ff")
            _ = try await store.insert(.sample())
            // The session, and the time of the latest entry, `born`.
            try await expect(server.ask("ZCARD", .text(index)), equals: .integer(2))
            try await expect(server.ask("ZSCORE", .text(index), "00000000000000ff"), equals: .null)
            #expect(try await server.lifetime(of: index) > 0)
        }
    }

    @Test("The server expires a record some minutes after the last possible use")
    func forgetting() async throws {
        try await withValkeyStore { store, server in
            let record = SessionRecord.sample()
            _ = try await store.insert(record)
            let key = store.keys.session(record.id)
            expect((1_190_000...1_200_000).contains(try await server.lifetime(of: key)))
            let used = Self.start + .seconds(60)
            try await store.touch([RecordTouch(id: record.id, lastUsedAt: used, keepUntil: used + .seconds(1_800))])
            expect((2_090_000...2_100_000).contains(try await server.lifetime(of: key)))
        }
    }

    @Test("The end reason of a session is kept for 300 s; an unknown one of a later release is read as revoked")
    func tombstones() async throws {
        try await withValkeyStore { store, server in
            _ = try await store.insert(.sample())
            let removed = try await store.remove(SessionID(1), reason: .signedOut, condition: nil, now: Self.start)
            expect(removed, equals: .removed(.sample()))
            let again = try await store.remove(SessionID(1), reason: .revoked, condition: nil, now: Self.start)
            expect(again, equals: .notFound)
            try await expect(store.read(SessionID(1)), equals: .ended(.signedOut))
            let key = store.keys.ended(SessionID(1))
            expect((290_000...300_000).contains(try await server.lifetime(of: key)))
            try await server.ask("SET", .text(key), "of_a_later_release")
            try await expect(store.read(SessionID(1)), equals: .ended(.revoked))
        }
    }

    @Test("Foreign and damaged records are unreadable, and can be ended")
    func damage() async throws {
        try await withValkeyStore { store, server in
            for number in UInt64(1)...3 { _ = try await store.insert(.sample(number)) }
            let keys = (1...3).map { store.keys.session(SessionID($0)) }
            try await server.ask("SET", .text(keys[0]), "foreign")
            try await server.ask("HSET", .text(keys[1]), "e", "soon")
            try await server.ask("HSET", .text(keys[2]), "k", "short")
            for number in UInt64(1)...3 {
                let id = SessionID(number)
                try await expect(store.read(id), equals: .unreadable)
                try await expect(store.replace(.sample(number, version: 3), fence: nil, now: Self.start) != .done)
                try await expect(
                    store.remove(id, reason: .unreadable, condition: nil, now: Self.start), equals: .notFound)
                try await expect(store.read(id), equals: .ended(.unreadable))
            }
            try await expect(empty: store.records(in: .account(7), now: Self.start))
        }
    }

    @Test("Scripts that the server has not cached are sent with EVAL, once")
    func scriptsAreFlushed() async throws {
        try await withValkeyStore { store, server in
            _ = try await store.insert(.sample())
            try await server.ask("SCRIPT", "FLUSH")
            let touches = (1...1_200).map { number in
                RecordTouch(
                    id: SessionID(UInt64(number)), lastUsedAt: Self.start + .seconds(1),
                    keepUntil: Self.start + .seconds(900))
            }
            try await store.touch(touches)
            var record = SessionRecord.sample()
            record.lastUsedAt = Self.start + .seconds(1)
            try await expect(store.read(record.id), equals: .record(record))
            try await expect(store.lease(record.id, for: .seconds(1), now: Self.start) != .notFound)
        }
    }

    @Test("Uses that the server rejects are returned, and the others are written; if it rejects all, that is a failure")
    func rejectedUses() async throws {
        try await withValkeyStore { store, server in
            let later = Self.start + .seconds(60)
            for number in UInt64(1)...3 { _ = try await store.insert(.sample(number)) }
            let uses = (UInt64(1)...3).map {
                RecordTouch(id: SessionID($0), lastUsedAt: later, keepUntil: later + .seconds(900))
            }
            // As for the sessions of a server that is missing.
            try await server.ask(
                "ACL", "SETUSER", "default", "resetkeys", .text("~\(store.keys.session(SessionID(2)))"))
            let unwritten = try await store.touch(uses)
            expect(unwritten?.ids, equals: [SessionID(1), SessionID(3)])
            expect(unwritten?.error?.reason, equals: .noPermission)
            await #expect(throws: SessionStoreError(.unavailable)) { try await store.touch([uses[0], uses[2]]) }
            try await server.ask("ACL", "SETUSER", "default", "allkeys")
            for (number, time) in [(UInt64(1), Self.start), (2, later), (3, Self.start)] {
                var expected = SessionRecord.sample(number)
                expected.lastUsedAt = time
                try await expect(store.read(SessionID(number)), equals: .record(expected))
            }
        }
    }

    @Test("A throttle state that is none is replaced, and states expire at the server")
    func throttle() async throws {
        try await withValkeyStore { store, server in
            let counter = ThrottleCounter(ThrottleKey(.account, hash: .max), SignInThrottle.rule(.account))
            let key = store.keys.throttle(counter.key)
            for text in ["nonsense", "1 2", "1 2 3 4", ""] {
                try await server.ask("SET", .text(key), .text(text))
                try await expect(store.throttleStates([counter.key], now: Self.start), equals: [nil])
                let result = ThrottleResult([counter], [nil], now: Self.start)
                try await expect(store.countAttempt([counter], now: Self.start), equals: result)
                expect((3_590_000...3_600_000).contains(try await server.lifetime(of: key)))
            }
        }
    }

    @Test("Keys state their purpose, and all keys of a session are in one slot")
    func keys() {
        let keys = ValkeyKeys(prefix: "app:x")
        expect(keys.session(SessionID(255)), equals: "app:x:{00000000000000ff}:session")
        expect(keys.lease(SessionID(255)), equals: "app:x:{00000000000000ff}:lease")
        expect(keys.ended(SessionID(255)), equals: "app:x:{00000000000000ff}:ended")
        expect(keys.sessions(of: 255), equals: "app:x:{a00000000000000ff}:sessions")
        expect(keys.sessions(ofProviderSession: 255), equals: "app:x:{p00000000000000ff}:sessions")
        expect(keys.cutoff(.account(255)), equals: "app:x:{a00000000000000ff}:cutoff")
        expect(keys.cutoff(.providerSession(255)), equals: "app:x:{p00000000000000ff}:cutoff")
        for index in [RecordIndex.account(.max), .providerSession(0)] {
            expect(keys.cutoff(named: ByteBuffer(string: keys.cutoff(index))), equals: index)
            expect(HashSlot.slot(of: keys.cutoff(index)), equals: HashSlot.slot(of: keys.sessions(in: index)))
        }
        for other in [
            "app:x:{m00000000000000ff}:cutoff", "app:x:{}:cutoff", "app:x:{a}:cutoff", "app:x:{a0ff}:cutoff",
            "app:x:{a00000000000000fF}:cutoff", "app:{a00000000000000ff}:cutoff", keys.sessions(of: 255), "}:cutoff",
        ] {
            expect(keys.cutoff(named: ByteBuffer(string: other)), equals: nil)
        }
        expect(keys.mark(MarkKey(.logoutToken, hash: 255)), equals: "app:x:{m200000000000000ff}:mark")
        expect(
            keys.throttle(ThrottleKey(.address, hash: 255)),
            equals: "app:x:{t00000000000000ff}:200000000000000ff:throttle")
        expect(
            keys.throttle(ThrottleKey(.spelling, hash: 1, group: 255)),
            equals: "app:x:{t00000000000000ff}:60000000000000001:throttle")
        expect(keys.session(named: ByteBuffer(string: keys.session(SessionID(255)))), equals: SessionID(255))
        for other in [
            keys.lease(SessionID(1)), "app:x:{}:session", "app:{00000000000000ff}:session", "app:x:{0ff}:session",
            "app:x:{00000000000000fF}:session", "}:session", "app:x:{",
        ] {
            expect(keys.session(named: ByteBuffer(string: other)), equals: nil)
        }
    }
}
