import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

/// Record stores over a real cluster while it changes. Each test starts six nodes, because it changes them.
@Suite("A real cluster that changes", .serialized, .timeLimit(.minutes(4)))
struct RealClusterTests {
    private static let start = SessionRecord.start
    /// The node timeout, plus 2 s for the election and for the gateway to notice, and much more for a busy machine.
    private static let failoverLimit = Duration.seconds(30)
    private static let count = UInt64(60)

    private func with(
        _ arguments: [String] = [], _ test: (ValkeyCluster, Replica, Replica) async throws -> Void
    ) async throws {
        try await ValkeyCluster.with(arguments: arguments) { cluster in
            let one = try await Replica.up(ValkeyConfiguration(cluster))
            let other = try await Replica.up(ValkeyConfiguration(cluster))
            try await stopping {
                await one.stop()
                await other.stop()
            } after: {
                do { try await test(cluster, one, other) } catch {
                    print("log of the first store: \(one.log.all.suffix(20))")
                    throw error
                }
            }
        }
    }

    private func insert(_ numbers: ClosedRange<UInt64>, _ replica: Replica) async throws {
        for number in numbers { try await expect(replica.records.insert(.sample(number, account: number))) }
    }

    /// Waits until every record is read, which proves that no slot is left without a connection.
    private func allAreRead(_ replica: Replica, version: UInt64 = 1) async throws {
        for number in 1...Self.count {
            let expected = RecordLookup.record(.sample(number, account: number, version: version))
            try await eventually("record \(number) is read", within: Self.failoverLimit) {
                let found = try? await replica.records.read(SessionID(number))
                return found == expected
            }
        }
    }

    private func replaceAll(_ one: Replica, isToldTo other: Replica) async throws {
        for number in 1...Self.count {
            let next = SessionRecord.sample(number, account: number, version: 2)
            try await expect(one.records.replace(next, fence: nil, now: Self.start), equals: .done)
        }
        try await eventually("the other gateway knows each change") {
            (1...Self.count).allSatisfy { other.changes.count(.changed(SessionID($0))) >= 1 }
        }
        try await allAreRead(other, version: 2)
    }

    @Test("A change in any slot is pushed to the other gateway")
    func invalidation() async throws {
        try await with { cluster, one, other in
            try await insert(1...Self.count, one)
            try await allAreRead(other)
            var owners: Set<Int> = []
            for number in 1...Self.count {
                owners.insert(try await cluster.owner(ofKey: one.records.keys.session(SessionID(number))).port)
            }
            expect(owners.count, equals: 3)
            try await replaceAll(one, isToldTo: other)
        }
    }

    @Test("All operations of a session, an account, marks and the throttle touch one slot per command")
    func noCrossSlot() async throws {
        try await with { cluster, one, other in
            let (store, start) = (one.records, Self.start)
            for number in UInt64(1)...20 {
                var record = SessionRecord.sample(number, account: number % 3)
                (record.name, record.provider) = (number % 4, number % 5)
                try await expect(store.insert(record))
                let id = record.id
                let lease = try await require(store.lease(id, for: .seconds(9), now: start).lease)
                record.version = 2
                try await expect(store.replace(record, fence: lease.fencingToken, now: start), equals: .done)
                try await store.release(id, fence: lease.fencingToken)
                let key = MarkKey(.logoutToken, hash: number)
                try await expect(store.setMark(key, to: start.wallTime, lifetime: .seconds(60), now: start))
            }
            let touches = (UInt64(1)...20).map {
                RecordTouch(id: SessionID($0), lastUsedAt: start + .seconds(1), keepUntil: start + .seconds(900))
            }
            try await store.touch(touches)
            for account in UInt64(0)...2 {
                try await expect(other.records.records(in: .account(account), now: start).isEmpty, equals: false)
            }
            try await expect(other.records.records(in: .providerSession(3), now: start).count, equals: 4)
            let marks = (UInt64(1)...20).map { MarkKey(.logoutToken, hash: $0) }
            try await expect(store.latestMark(marks, now: start), equals: start.wallTime)
            let keys = (UInt64(1)...20).map { ThrottleKey(.account, hash: $0) }
            let counters = keys.map { ThrottleCounter($0, SignInThrottle.rule(.account)) }
            let result = ThrottleResult(counters, keys.map { _ in nil }, now: start)
            try await expect(store.countAttempt(counters, now: start), equals: result)
            try await expect(other.records.throttleStates(keys, now: start).allSatisfy { $0?.count == 1 })
            let debts = (UInt64(1)...2_048).map { RateDebt(key: $0 << 32, charge: 60_000_000_000, most: .max >> 4) }
            await expect(store.settle(debts).ahead.allSatisfy { $0 == 59_900_000_000 })
            await expect(other.records.settle(debts).ahead.allSatisfy { $0 ?? 0 > 90_000_000_000 })
            try await expect(store.countGateways(including: 1), equals: 1)
            for number in UInt64(1)...20 {
                let end = try await other.records.remove(
                    SessionID(number), reason: .revoked, condition: nil, now: start)
                expect(end != .notFound)
            }
            for node in cluster.nodes {
                let errors = try await node.info("INFO", "errorstats")
                expect(errors["errorstat_CROSSSLOT"], equals: nil, "node \(node.port)")
                expect(errors["errorstat_READONLY"], equals: nil, "node \(node.port)")
            }
        }
    }

    @Test("A slot that moves key by key is served before, during and after the move, and its changes are pushed")
    func resharding() async throws {
        try await with { cluster, one, other in
            try await insert(1...Self.count, one)
            try await allAreRead(other)
            let moving = one.records.keys.session(SessionID(1))
            let slot = try await cluster.slot(ofKey: moving)
            let source = try await cluster.owner(ofSlot: slot)
            let target = try await require(cluster.primaries().first { $0 !== source })
            let (inserted, next) = (
                SessionRecord.sample(1, account: 1), SessionRecord.sample(1, account: 1, version: 2)
            )
            var replacing: Task<Void, any Error>?
            try await cluster.moveSlots(slot..<(slot + 1), from: source, to: target) { _ async throws in
                // The slot has two nodes now. The record is at the first; the lease, which does not exist, would be at
                // the second, so the script of the change cannot run before the keys have moved.
                try await expect(one.records.read(SessionID(1)), equals: .record(inserted))
                try await expect(one.records.read(SessionID(1_000)), equals: .none)
                replacing = Task {
                    try await eventually("the record is replaced", within: Self.failoverLimit) {
                        let result = try? await one.records.replace(next, fence: nil, now: Self.start)
                        return result == .done || result == .changed
                    }
                }
            }
            try await replacing?.value
            try await expect(cluster.owner(ofSlot: slot).port, equals: target.port)
            for replica in [one, other] {
                try await expect(
                    replica.records.read(SessionID(1)), equals: .record(.sample(1, account: 1, version: 2)))
            }
            let before = other.changes.count(.changed(SessionID(1)))
            let last = SessionRecord.sample(1, account: 1, version: 3)
            try await expect(one.records.replace(last, fence: nil, now: Self.start), equals: .done)
            try await eventually("the change at the new node is pushed") {
                other.changes.count(.changed(SessionID(1))) > before
            }
        }
    }

    @Test("Rule 71: while a slot moves, a new cutoff is not set where other gateways would not be notified of it")
    func cutoffInMovingSlot() async throws {
        try await with { cluster, one, other in
            // The slot of the first account has no key, and that of the second has its index.
            try await insert(2...2, one)
            for number in UInt64(1)...2 {
                let index = RecordIndex.account(number)
                let slot = try await cluster.slot(ofKey: one.records.keys.cutoff(index))
                let source = try await cluster.owner(ofSlot: slot)
                let target = try await require(cluster.primaries().first { $0 !== source })
                // From now on this gateway may use that there is none, until the source reports a change.
                try await expect(other.records.cutoffs([index], now: Self.start), equals: [nil])
                try await cluster.moveSlots(slot..<(slot + 1), from: source, to: target) { _ in
                    await #expect(throws: SessionStoreError(.unavailable), "account \(number)") {
                        try await one.records.setCutoff(
                            index, keeping: nil, before: nil, lifetime: .seconds(600), now: Self.start)
                    }
                }
                try await eventually("the cutoff is still missing after the move", within: Self.failoverLimit) {
                    let found = try? await other.records.cutoffs([index], now: Self.start)
                    return found == [nil]
                }
                try await eventually("the cutoff is set after the move", within: Self.failoverLimit) {
                    let result: Void? = try? await one.records.setCutoff(
                        index, keeping: nil, before: nil, lifetime: .seconds(600), now: Self.start)
                    return result != nil
                }
                try await eventually("the other gateway reads it", within: Self.failoverLimit) {
                    let found = try? await other.records.cutoffs([index], now: Self.start)
                    return found?.first.flatMap { $0 } != nil
                }
            }
        }
    }

    @Test("Slots that Valkey moves atomically are served afterwards, and their changes are pushed")
    func atomicMigration() async throws {
        try await with { cluster, one, other in
            try await insert(1...Self.count, one)
            try await allAreRead(other)
            let primaries = try await cluster.primaries()
            try await cluster.moveSlotsAtomically(0..<2_000, from: primaries[0], to: primaries[1])
            try await cluster.moveSlotsAtomically(6_000..<8_000, from: primaries[1], to: primaries[2])
            try await allAreRead(one)
            try await allAreRead(other)
            try await replaceAll(one, isToldTo: other)
        }
    }

    @Test("After kill -9 of a primary its replica serves its sessions; the other shards are not affected")
    func killedPrimary() async throws {
        try await with(["--cluster-require-full-coverage", "no"]) { cluster, one, other in
            try await insert(1...Self.count, one)
            try await allAreRead(other)
            let victim = try await cluster.primaries()[0]
            var elsewhere: [UInt64] = []
            for number in 1...Self.count {
                let key = one.records.keys.session(SessionID(number))
                if try await cluster.owner(ofKey: key) !== victim { elsewhere.append(number) }
            }
            expect(elsewhere.count > 10 && elsewhere.count < Self.count)
            // Replication is asynchronous; what it may lose is not the subject here.
            try await expect(victim.run("WAIT", "1", "5000").integer, equals: 1)
            try await cluster.failOver(victim)
            for number in elsewhere {
                try await expect(one.records.read(SessionID(number)), equals: .record(.sample(number, account: number)))
            }
            try await allAreRead(one)
            try await allAreRead(other)
            try await insert((Self.count + 1)...(2 * Self.count), other)
            // The previous primary returns as a replica. It is not written to.
            try await victim.start()
            try await cluster.settled()
            try await allAreRead(one)
        }
    }

    @Test("A suspended primary is replaced; when it continues, nothing is read from it")
    func frozenPrimary() async throws {
        try await with { cluster, one, other in
            try await insert(1...Self.count, one)
            try await allAreRead(other)
            let victim = try await cluster.primaries()[1]
            let replica = try await cluster.replica(of: victim)
            try await expect(victim.run("WAIT", "1", "5000").integer, equals: 1)
            victim.freeze()
            try await cluster.isPrimary(replica)
            for number in 1...Self.count {
                let next = SessionRecord.sample(number, account: number, version: 2)
                try await eventually("record \(number) is replaced", within: Self.failoverLimit) {
                    // After a lost response the record may be replaced already.
                    guard let result = try? await one.records.replace(next, fence: nil, now: Self.start) else {
                        return false
                    }
                    return result == .done || result == .changed
                }
            }
            victim.thaw()
            try await allAreRead(other, version: 2)
            try await cluster.settled()
            try await allAreRead(one, version: 2)
        }
    }

    @Test("A node that is added serves the slots that it gets; one without slots is removed without effect")
    func addedAndRemoved() async throws {
        try await with { cluster, one, other in
            try await insert(1...Self.count, one)
            let source = try await cluster.primaries()[2]
            let added = try await cluster.addNode()
            let slots = 10_923..<(10_923 + 1_000)
            try await cluster.moveSlotsAtomically(slots, from: source, to: added)
            try await allAreRead(one)
            try await allAreRead(other)
            try await cluster.moveSlotsAtomically(slots, from: added, to: source)
            try await cluster.settled()
            try await cluster.removeNode(added)
            try await allAreRead(one)
            try await allAreRead(other)
        }
    }

    @Test("A promoted replica is used without a loss of data")
    func manualFailover() async throws {
        try await with { cluster, one, other in
            try await insert(1...Self.count, one)
            for primary in try await cluster.primaries() {
                try await cluster.promote(try await cluster.replica(of: primary))
            }
            try await allAreRead(one)
            try await allAreRead(other)
            try await insert((Self.count + 1)...(Self.count + 20), other)
        }
    }
}
