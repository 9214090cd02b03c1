import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Permit ledger")
struct PermitLedgerTests {
    @Test(
        "Half is guaranteed evenly, the remainder is common", arguments: [(100, 4, 12, 52), (3, 4, 0, 3), (0, 1, 0, 0)])
    func division(maximum: Int, loops: Int, guaranteed: Int, common: Int) {
        let shared = SharedPermits(maximum: maximum, loops: loops)
        expect(shared.guaranteed == guaranteed && shared.available == common)
    }

    @Test("Other loops cannot use up a loop's guarantee")
    func guarantee() {
        let shared = SharedPermits(maximum: 8, loops: 2)
        var first = PermitLedger(shared, loop: 0)
        var second = PermitLedger(shared, loop: 1)
        while first.take(isWaiting: false) {}
        expect(first.count == 6 && first.isBeyondGuarantee)
        while second.take(isWaiting: false) {}
        expect(second.count == 2 && !second.isBeyondGuarantee)
        expect(shared.holders, equals: [0])
    }

    @Test("A common permit is given back first, and wakes the loop that waits")
    func wake() {
        let shared = SharedPermits(maximum: 8, loops: 2)
        var first = PermitLedger(shared, loop: 0)
        var second = PermitLedger(shared, loop: 1)
        while first.take(isWaiting: false) {}
        while second.take(isWaiting: false) {}
        expect(second.takeOrAsk(), equals: .ask)
        expect(second.takeOrAsk(), equals: .asked)
        expect(first.isAwaited && !second.isAwaited)
        expect(first.giveBack(), equals: 1)
        expect(!first.isAwaited)
        expect(second.take() && second.count == 3)
        // It is no longer registered.
        expect(first.giveBack(), equals: -1)
        expect(first.count, equals: 4)
        for _ in 0..<4 { _ = first.giveBack() }
        expect(first.count == 0 && shared.holders == [1] && shared.available == 3)
        expect(first.giveBack() == -1 && first.count == 0 && shared.available == 3)
    }

    @Test("A guaranteed permit that is given back wakes no other loop")
    func ownPermit() {
        let shared = SharedPermits(maximum: 4, loops: 2)
        var first = PermitLedger(shared, loop: 0)
        var second = PermitLedger(shared, loop: 1)
        let isTaken1 = first.take()
        expect(isTaken1)
        for _ in 0..<3 {
            let isTaken2 = second.take()
            expect(isTaken2)
        }
        let isTaken3 = second.take()
        expect(!isTaken3)
        expect(first.giveBack(), equals: -1)
        let isTaken4 = second.take()
        expect(!isTaken4)
    }

    @Test("A loop that was woken and needs nothing passes the wake-up on")
    func passOn() {
        let shared = SharedPermits(maximum: 3, loops: 3)
        var ledgers = (0..<3).map { PermitLedger(shared, loop: $0) }
        for _ in 0..<3 {
            let isTaken = ledgers[0].take()
            expect(isTaken)
        }
        expect(!ledgers[1].take() && !ledgers[2].take())
        expect(ledgers[0].giveBack(), equals: 1)
        expect(ledgers[1].wakeNext(), equals: 2)
        expect(ledgers[2].wakeNext(), equals: -1)
    }

    @Test("A loop that stops waiting is not woken, and wakes another one if a permit is left")
    func stop() {
        let shared = SharedPermits(maximum: 2, loops: 3)
        var ledgers = (0..<3).map { PermitLedger(shared, loop: $0) }
        for _ in 0..<2 {
            let isTaken = ledgers[0].take()
            expect(isTaken)
        }
        expect(!ledgers[1].take() && !ledgers[2].take())
        expect(ledgers[1].stopWaiting(), equals: -1)
        expect(ledgers[0].giveBack(), equals: 2)
        expect(!ledgers[2].isBeyondGuarantee)
        // The permit was taken by loop 1 meanwhile, then given back.
        expect(ledgers[1].take() && !ledgers[2].take())
        expect(ledgers[1].giveBack(), equals: 2)
    }

    @Test("Loops are woken in the order of a ring", arguments: [0, 5, 63, 64, 130, 255])
    func ring(loop: Int) {
        let set = LoopSet()
        let members = [0, 1, 62, 63, 64, 65, 127, 128, 200, 254, 255].filter { $0 != loop }
        for member in members { expect(set.insert(member)) }
        expect(!set.insert(members[0]))
        var order: [Int] = []
        while let next = set.removeNext(after: loop) { order.append(next) }
        expect(order, equals: members.filter { $0 > loop } + members.filter { $0 < loop })
        set.insert(loop)
        expect(set.removeNext(after: loop) == nil && set.contains(loop))
    }

    @Test("Threads never use more permits than there are, and none is lost")
    func threads() async {
        let shared = SharedPermits(maximum: 10, loops: 4)
        let counters = Counters()
        await withTaskGroup(of: Void.self) { group in
            for loop in 0..<4 {
                group.addTask {
                    var ledger = PermitLedger(shared, loop: loop)
                    var random = SeededGenerator(seed: UInt64(loop))
                    for _ in 0..<20_000 {
                        if random.next() & 1 == 0 {
                            if ledger.take() {
                                if counters.used.add(1, ordering: .relaxed).newValue > 10 {
                                    counters.isExceeded.store(true, ordering: .relaxed)
                                }
                            }
                        } else if ledger.count > 0 {
                            counters.used.subtract(1, ordering: .relaxed)
                            _ = ledger.giveBack()
                        }
                    }
                    while ledger.count > 0 {
                        counters.used.subtract(1, ordering: .relaxed)
                        _ = ledger.giveBack()
                    }
                }
            }
        }
        let wasExceeded = counters.isExceeded.load(ordering: .relaxed)
        let remaining = counters.used.load(ordering: .relaxed)
        expect(!wasExceeded)
        expect(remaining == 0 && shared.available == 6 && shared.holders.isEmpty)
    }

    @Test("No permit is left while a loop waits, whichever of the two threads is first")
    func lostWakeUps() async {
        let shared = SharedPermits(maximum: 1, loops: 2)
        let race = Race()
        let rounds = 60_000
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                var ledger = PermitLedger(shared, loop: 0)
                for round in 1...rounds {
                    guard ledger.take(isWaiting: false) else { return race.isLost.store(true, ordering: .relaxed) }
                    race.begun.store(round, ordering: .sequentiallyConsistent)
                    // Another delay each round, so that some rounds meet the time between attempt and registration.
                    for _ in 0..<round % 97 where race.isLost.load(ordering: .sequentiallyConsistent) { return }
                    if ledger.giveBack() == 1 { race.woken.store(round, ordering: .sequentiallyConsistent) }
                    await race.wait { race.ended.load(ordering: .sequentiallyConsistent) >= round }
                }
            }
            group.addTask {
                var ledger = PermitLedger(shared, loop: 1)
                for round in 1...rounds {
                    await race.wait { race.begun.load(ordering: .sequentiallyConsistent) >= round }
                    if ledger.takeOrAsk() != .taken {
                        await race.wait { race.woken.load(ordering: .sequentiallyConsistent) >= round }
                        _ = ledger.take(isWaiting: false)
                    }
                    _ = ledger.giveBack()
                    race.ended.store(round, ordering: .sequentiallyConsistent)
                }
            }
        }
        let isLost = race.isLost.load(ordering: .relaxed)
        expect(!isLost)
    }

    /// The progress of two loops.
    private final class Race: Sendable {
        let begun = Atomic<Int>(0)
        let woken = Atomic<Int>(0)
        let ended = Atomic<Int>(0)
        let isLost = Atomic<Bool>(false)

        /// Waits for the other thread, at most 20 seconds: a wake-up that is lost never comes.
        func wait(_ condition: () -> Bool) async {
            let deadline = ContinuousClock.now + .seconds(20)
            var turn = 0
            while turn % 1_024 != 0 || ContinuousClock.now < deadline {
                if condition() || isLost.load(ordering: .relaxed) { return }
                turn += 1
                if turn % 64 == 0 { await Task.yield() }
            }
            isLost.store(true, ordering: .relaxed)
        }
    }

    private final class Counters: Sendable {
        let used = Atomic<Int>(0)
        let isExceeded = Atomic<Bool>(false)
    }
}
