import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore

private let second: UInt64 = 1_000_000_000
private let start: UInt64 = 1_000 * second

@Suite("Upstream board")
struct UpstreamBoardTests {
    private func board(
        _ count: Int, settings: BoardSettings = BoardSettings(), adopting old: UpstreamBoard? = nil, from first: Int = 0
    ) -> UpstreamBoard {
        UpstreamBoard(
            name: "api", settings: settings,
            targets: (first..<first + count).map { TargetSpecification(testIdentity($0), configurationIndex: $0) },
            adopting: old, now: start)
    }

    private func state(_ board: UpstreamBoard, _ index: Int) -> TargetState { board.table[index].state }

    private func fail(_ board: UpstreamBoard, _ index: Int, times: Int, at now: UInt64 = start) {
        for _ in 0..<times {
            board.requestFailed(state(board, index), after: 1_000, startedAt: now, now: now, random: 0)
        }
    }

    private func ejected(_ board: UpstreamBoard) -> [Int] {
        board.table.entries.indices.filter { state(board, $0).word.circuit == .ejected }
    }

    @Test("Five failures in a row eject, four or interrupted ones do not")
    func consecutive() {
        let board = board(4)
        fail(board, 0, times: 4)
        state(board, 0).headReceived(after: 1, now: start)
        fail(board, 0, times: 4)
        expect(empty: ejected(board))
        fail(board, 0, times: 1)
        expect(ejected(board), equals: [0])
        let changes = board.tick(now: start, random: 0)
        expect(changes.contains(.ejected(testIdentity(0), .consecutive, milliseconds: 10_000)))
        expect(changes.contains(.condition(testIdentity(0), from: .up, to: .ejected)))
        expect(empty: board.tick(now: start + second, random: 0))
    }

    @Test(
        "At most half of the targets are ejected, and never the last usable one",
        arguments: [(1, 0), (2, 1), (3, 1), (5, 2)])
    func most(count: Int, expected: Int) {
        let board = board(count)
        for index in 0..<count { fail(board, index, times: 20) }
        expect(ejected(board).count, equals: expected)
        let all = self.board(count, settings: BoardSettings(eject: EjectionConfiguration(most: 1)))
        for index in 0..<count { fail(all, index, times: 20) }
        expect(ejected(all).count, equals: count - 1)
        let off = self.board(count, settings: BoardSettings(eject: EjectionConfiguration(most: 0)))
        for index in 0..<count { fail(off, index, times: 20) }
        expect(empty: ejected(off))
    }

    @Test("Targets that are down by checks do not count as ejected, but not as usable either")
    func mostCountsEjected() {
        let board = board(4)
        for index in 0..<2 { board.checked(testIdentity(index), isUp: false, now: start) }
        fail(board, 2, times: 5)
        expect(ejected(board), equals: [2])
        fail(board, 3, times: 5)
        expect(ejected(board), equals: [2])
    }

    @Test("Consecutive failures eject only if that is enabled")
    func consecutiveOff() {
        let board = board(4, settings: BoardSettings(eject: EjectionConfiguration(consecutive: 0)))
        fail(board, 0, times: 100)
        expect(empty: ejected(board))
    }

    @Test("A probe that fails ejects for twice the time, one that succeeds returns the target")
    func probes() {
        let board = board(2)
        fail(board, 0, times: 5)
        var now = start + 10 * second
        expect(state(board, 0).claimProbe(time: 5 * second, now: now))
        fail(board, 0, times: 1, at: now)
        expect(board.tick(now: now, random: 0).contains(.ejected(testIdentity(0), .probe, milliseconds: 20_000)))
        now += 20 * second
        expect(state(board, 0).claimProbe(time: 5 * second, now: now))
        expect(state(board, 0).headReceived(after: 1, now: now))
        board.requestSucceeded(state(board, 0), startedAt: now, now: now)
        expect(state(board, 0).word.isUsable)
        expect(board.tick(now: now, random: 0).contains(.condition(testIdentity(0), from: .ejected, to: .up)))
    }

    @Test("A failed connection backs off, an established one ends that")
    func connecting() {
        let board = board(2)
        board.connectFailed(state(board, 0), startedAt: start, now: start, random: 0)
        expect(state(board, 0).word.circuit, equals: .backOff)
        expect(state(board, 0).estimatedLatency(now: start), equals: second)
        expect(board.tick(now: start, random: 0), equals: [.condition(testIdentity(0), from: .up, to: .backingOff)])
        board.connected(state(board, 0), now: start)
        expect(state(board, 0).word, equals: .usable)
        // A probe that cannot connect ejects again.
        fail(board, 1, times: 5)
        expect(state(board, 1).claimProbe(time: second, now: start + 10 * second))
        board.connectFailed(state(board, 1), startedAt: start + 10 * second, now: start + 10 * second, random: 0)
        expect(
            board.tick(now: start + 10 * second, random: 0).contains {
                if case .ejected(_, .probe, _) = $0 { true } else { false }
            })
    }

    @Test("An abandoned probe is free for the next request")
    func abandoned() {
        let board = board(2)
        fail(board, 0, times: 5)
        let now = start + 10 * second
        expect(state(board, 0).claimProbe(time: 60 * second, now: now))
        board.probeAbandoned(state(board, 0), now: now)
        expect(state(board, 0).claimProbe(time: 60 * second, now: now))
    }

    /// Runs ten seconds with outcomes per second and target.
    private func run(_ board: UpstreamBoard, _ outcomes: [(ok: Int, failed: Int)], seconds: UInt64 = 10) {
        for tick in 1...seconds {
            for (index, outcome) in outcomes.enumerated() {
                state(board, index).count(succeeded: outcome.ok, failed: outcome.failed)
            }
            _ = board.tick(now: start + tick * second, random: 0)
        }
    }

    @Test("Half of at least 20 requests within 10 s eject, if the others do well")
    func share() {
        let settings = BoardSettings(eject: EjectionConfiguration(consecutive: 0))
        let board = board(4, settings: settings)
        run(board, [(1, 1), (10, 0), (10, 0), (10, 0)])
        expect(ejected(board), equals: [0])
        let few = self.board(4, settings: settings)
        run(few, [(1, 1), (10, 0), (10, 0), (10, 0)], seconds: 9)
        expect(empty: ejected(few))
        let lower = self.board(4, settings: settings)
        run(lower, [(12, 10), (10, 0), (10, 0), (10, 0)])
        expect(empty: ejected(lower))
        // Twenty requests in twenty seconds are not enough.
        let slow = self.board(4, settings: settings)
        for tick in 1...40 as ClosedRange<UInt64> {
            state(slow, 0).count(succeeded: 0, failed: tick % 2 == 0 ? 1 : 0)
            state(slow, 1).count(succeeded: 10, failed: 0)
            _ = slow.tick(now: start + tick * second, random: 0)
        }
        expect(empty: ejected(slow))
    }

    @Test("No target is ejected by share if all fail alike, or without requests to others")
    func shareOfAll() {
        let settings = BoardSettings(eject: EjectionConfiguration(consecutive: 0))
        let alike = board(4, settings: settings)
        run(alike, [(0, 10), (5, 5), (5, 5), (5, 5)])
        expect(empty: ejected(alike))
        // Three times as much as the others together is the limit.
        let limit = board(4, settings: settings)
        run(limit, [(1, 9), (7, 3), (7, 3), (7, 3)])
        expect(ejected(limit), equals: [0])
        let alone = board(2, settings: settings)
        run(alone, [(0, 10), (0, 0)])
        expect(empty: ejected(alone))
        let off = board(4, settings: BoardSettings(eject: EjectionConfiguration(consecutive: 0, share: 0)))
        run(off, [(0, 10), (10, 0), (10, 0), (10, 0)])
        expect(empty: ejected(off))
    }

    @Test("Ten seconds with successes and without failures make the next ejection shorter")
    func cleanPeriods() {
        let board = board(3)
        let word = TargetWord.usable.after(.ejected(times: .standard, random: 0), now: start)
            .after(.probeStarted(time: second), now: start + 10 * second)
            .after(.requestSucceeded(startedAt: start + 10 * second), now: start + 10 * second)
        for index in 0..<3 { state(board, index).wordBits.store(word.rawValue, ordering: .relaxed) }
        _ = board.tick(now: start, random: 0)
        for tick in 1...12 as ClosedRange<UInt64> {
            state(board, 0).count(succeeded: 1, failed: 0)
            state(board, 1).count(succeeded: 100, failed: tick == 5 ? 1 : 0)
            _ = board.tick(now: start + tick * second, random: 0)
            expect(state(board, 0).word.ejections, equals: (tick >= 10 ? 0 : 1))
        }
        // One failed, one had no requests.
        expect(state(board, 1).word.ejections == 1 && state(board, 2).word.ejections == 1)
    }

    @Test("Panic is reported without a usable target")
    func panic() {
        let board = board(4)
        for index in 0..<3 { board.checked(testIdentity(index), isUp: false, now: start) }
        expect(!board.tick(now: start, random: 0).contains(.panicStarted))
        board.checked(testIdentity(3), isUp: false, now: start)
        expect(board.tick(now: start + second, random: 0).contains(.panicStarted) && board.isPanicking)
        board.checked(testIdentity(3), isUp: true, now: start)
        expect(board.tick(now: start + 2 * second, random: 0).contains(.panicEnded) && !board.isPanicking)
    }

    @Test("The only target is probed by the next request after its back-off or ejection")
    func onlyTarget() {
        let board = board(2)
        fail(board, 0, times: 5)
        board.replaceTargets([TargetSpecification(testIdentity(0))], now: start)
        _ = board.tick(now: start + 10 * second, random: 0)
        board.requestSucceeded(state(board, 0), startedAt: start + 10 * second, now: start + 11 * second)
        expect(state(board, 0).word.isUsable)
    }

    @Test("A changed set of targets keeps known states; others are reported as draining until their last request")
    func replace() {
        let board = board(3)
        let known = (0..<3).map { state(board, $0) }
        known[0].started(now: start)
        let table = board.replaceTargets((1..<4).map { TargetSpecification(testIdentity($0)) }, now: start)
        expect(table[0].state === known[1] && table[1].state === known[2] && table.count == 3)
        expect(table === board.table)
        // Requests that began with the previous table may still select it.
        expect(known[0].word.isUsable && board.removedTargets.map(\.identity) == [testIdentity(0)])
        expect(board.hasRequests)
        expect(table[2].state.warmingTime(at: MonotonicMilliseconds(start)), equals: 0)
        expect(known[1].warmingTime(at: MonotonicMilliseconds(start)), equals: nil)
        let changes = board.tick(now: start, random: 0)
        expect(changes, equals: [.condition(testIdentity(0), from: .up, to: .draining)])
        known[0].ended(owesHead: true)
        expect(!board.hasRequests)
        expect(board.tick(now: start + second, random: 0), equals: [.removed(testIdentity(0))])
        expect(empty: board.removedTargets)
        expect(empty: board.tick(now: start + 2 * second, random: 0))
    }

    @Test("A removed target that returns has its state, and drains no more")
    func returning() {
        let board = board(2)
        let first = state(board, 0)
        first.started(now: start)
        fail(board, 0, times: 5)
        board.replaceTargets([TargetSpecification(testIdentity(1))], now: start)
        let table = board.replaceTargets((0..<2).map { TargetSpecification(testIdentity($0)) }, now: start)
        expect(table[0].state === first && !first.word.isDraining && first.word.circuit == .ejected)
        first.ended(owesHead: true)
        expect(!board.tick(now: start, random: 0).contains(.removed(testIdentity(0))))
    }

    @Test("The targets of a table are distinct, limited, and within their ranges")
    func specifications() {
        let board = board(1)
        var same = TargetSpecification(
            testIdentity(1), weight: 5_000, tier: 90, isOtherZone: true, configurationIndex: 3)
        let table = board.replaceTargets([same, same], now: start)
        expect(table.count == 1 && table[0].weight == 1_000 && table[0].tier == 9 && table[0].isOtherZone)
        same.weight = 0
        expect(board.replaceTargets([same], now: start)[0].state.word.isDraining)
        same.weight = 1
        expect(!board.replaceTargets([same], now: start)[0].state.word.isDraining)
        let many = (0..<300).map { TargetSpecification(testIdentity($0)) }
        expect(board.replaceTargets(many, now: start).count, equals: 256)
    }

    @Test("A target can start down until a check passes")
    func startsDown() {
        let board = board(1)
        let down = TargetSpecification(testIdentity(7), startsDown: true)
        let table = board.replaceTargets([TargetSpecification(testIdentity(0), startsDown: true), down], now: start)
        expect(table[0].state.word.isUsable && table[1].state.word.isDown)
        board.checked(testIdentity(7), isUp: true, now: start)
        expect(table[1].state.word.isUsable)
        board.checked(testIdentity(99), isUp: false, now: start)
    }

    @Test("A passed check ends a back-off, and the estimate of the failures before it is forgotten")
    func checkEndsBackOff() {
        let board = board(2)
        board.connectFailed(state(board, 0), startedAt: start, now: start, random: 0)
        expect(state(board, 0).estimatedLatency(now: start), equals: second)
        board.checked(testIdentity(0), isUp: true, now: start)
        expect(state(board, 0).word.isUsable && state(board, 0).estimatedLatency(now: start) == nil)
        // It ends no ejection, and keeps the estimate of a target that is used.
        fail(board, 0, times: 5)
        _ = state(board, 1).headReceived(after: 1_000_000, now: start)
        for index in 0..<2 { board.checked(testIdentity(index), isUp: true, now: start) }
        expect(ejected(board), equals: [0])
        expect(state(board, 1).estimatedLatency(now: start), equals: 1_000_000)
    }

    @Test("The states of a new board have its half-life and penalty")
    func rules() {
        let balance = BalanceConfiguration(halfLife: .milliseconds(1_024), failurePenalty: .seconds(8))
        let state = state(board(1, settings: BoardSettings(balance: balance)), 0)
        _ = state.failed(after: 1, now: start)
        expect(state.estimatedLatency(now: start), equals: 8 * second)
        expect(state.estimatedLatency(now: start + 1_024_000_000), equals: 4 * second)
    }

    @Test("A reload keeps states, budget and held event loops, and changes nothing before it is in effect")
    func reload() {
        let old = board(3)
        let states = (0..<3).map { state(old, $0) }
        fail(old, 1, times: 5)
        states[0].started(now: start)
        _ = old.budget.take()
        old.held.insert(7)
        let faster = BoardSettings(balance: BalanceConfiguration(halfLife: .milliseconds(128)))
        let new = board(3, settings: faster, adopting: old, from: 1)
        expect(!states[0].word.isDraining && old.table.count == 3)
        states[1].headReceived(after: 8 * second, now: start)
        #expect(states[1].estimatedLatency(now: start + second) ?? 0 > 6 * second)
        new.activate(now: start)
        expect(new.table[0].state === states[1] && new.table[1].state === states[2])
        expect(new.removedTargets.map(\.identity) == [testIdentity(0)] && states[1].word.circuit == .ejected)
        #expect(states[1].estimatedLatency(now: start + second) ?? .max < second)
        expect(new.table[2].state.warmingTime(at: MonotonicMilliseconds(start)), equals: 0)
        expect(new.budget === old.budget && new.budget.available == 9)
        expect(new.held.remove(7))
        // The change that no tick reported before the reload.
        expect(new.tick(now: start, random: 0).contains(.ejected(testIdentity(1), .consecutive, milliseconds: 10_000)))
        states[0].ended(owesHead: true)
        expect(new.tick(now: start, random: 0).contains(.removed(testIdentity(0))))
        // Slots stay distinct.
        expect(Set((states + [new.table[2].state]).map(\.slot)).count, equals: 4)
        new.activate(now: start)
    }

    @Test("Slow start needs a warm target, and is not used at the start")
    func slowStart() {
        let settings = BoardSettings(balance: BalanceConfiguration(slowStart: .seconds(30)))
        let board = board(2, settings: settings)
        expect(board.condition(of: state(board, 0), now: start), equals: .up)
        let table = board.replaceTargets((2..<4).map { TargetSpecification(testIdentity($0)) }, now: start)
        for entry in table.entries { expect(board.condition(of: entry.state, now: start), equals: .up) }
        let mixed = board.replaceTargets((3..<5).map { TargetSpecification(testIdentity($0)) }, now: start)
        expect(mixed.entries.map { board.condition(of: $0.state, now: start) }, equals: [.up, .warming])
        expect(board.condition(of: mixed[1].state, now: start + 30 * second), equals: .up)
        // The warm one fails: the other one gets all requests, and has no slow start any more.
        board.checked(testIdentity(3), isUp: false, now: start)
        _ = board.tick(now: start + second, random: 0)
        expect(board.condition(of: mixed[1].state, now: start + second), equals: .up)
    }

    @Test("A spent budget is reported once, and its return")
    func budget() {
        let board = board(1)
        while board.budget.take() {}
        _ = board.tick(now: start, random: 0)
        board.budget.add(firstAttempts: 1)
        expect(empty: board.tick(now: start, random: 0))
        expect(board.tick(now: start + second, random: 0).contains(.budgetAvailable))
        let none = self.board(1, settings: BoardSettings(retry: RetryConfiguration(budget: 0, perSecond: 0)))
        expect(empty: none.tick(now: start, random: 0))
    }

    @Test("Changes are kept until the next tick, to a limit")
    func changes() {
        let board = board(2)
        for _ in 0..<2_000 {
            state(board, 0).wordBits.store(0, ordering: .relaxed)
            fail(board, 0, times: 5)
        }
        #expect(board.tick(now: start, random: 0).count <= BoardMembers.maxChanges)
    }
}
