import TestSupport
import Testing

@testable import CloakroomCore

private let second: UInt64 = 1_000_000_000
private let start: UInt64 = 1_000 * second

@Suite("Upstream boards of successive configurations and DNS responses")
struct UpstreamBoardPhaseTests {
    private func board(_ count: Int, adopting old: UpstreamBoard? = nil) -> UpstreamBoard {
        UpstreamBoard(
            name: "api", settings: BoardSettings(),
            targets: (0..<count).map { TargetSpecification(testIdentity($0), configurationIndex: $0) },
            adopting: old, now: start)
    }

    private func state(_ board: UpstreamBoard, _ index: Int) -> TargetState { board.table[index].state }

    @Test(
        "A new target that starts down gets no request from its first moment, and is not reported as having gone down")
    func newTargetStartsDown() {
        let board = board(1)
        let new = TargetSpecification(testIdentity(7), startsDown: true)
        let table = board.replaceTargets([TargetSpecification(testIdentity(0)), new], now: start)
        expect(table[1].state.word.isDown)
        expect(empty: board.tick(now: start, random: 0))
        board.checked(testIdentity(7), isUp: true, now: start)
        let changes = board.tick(now: start + second, random: 0)
        expect(changes, equals: [.condition(testIdentity(7), from: .down, to: .up)])
    }

    @Test("A removed target that returns before its last request has ended needs a passed check again")
    func returnsUnchecked() {
        let board = board(2)
        let first = state(board, 0)
        first.started(now: start)
        board.replaceTargets([TargetSpecification(testIdentity(1))], now: start)
        expect(first.word.isUsable)
        let both = (0..<2).map { TargetSpecification(testIdentity($0), startsDown: true) }
        board.replaceTargets(both, now: start)
        // The other one was not removed.
        expect(first.word.isDown && !board.table[1].state.word.isDown)
        first.ended(owesHead: true)
        // The same by a reload, once it is in effect.
        let old = self.board(2)
        let target = state(old, 0)
        target.started(now: start)
        old.replaceTargets([TargetSpecification(testIdentity(1))], now: start)
        let new = UpstreamBoard(name: "api", settings: BoardSettings(), targets: both, adopting: old, now: start)
        expect(target.word.isUsable)
        new.activate(now: start)
        expect(target.word.isDown)
        target.ended(owesHead: true)
    }

    @Test("Once a reload is in effect, late results of the previous board change nothing; before, those of the new one")
    func superseded() {
        let old = board(2)
        let new = board(2, adopting: old)
        let drained = (0..<3).map { TargetSpecification(testIdentity($0), weight: 0) }
        for board in [new, old] {
            if board === old { new.activate(now: start) }
            expect(!board.isActive)
            expect(board.replaceTargets(drained, now: start).count, equals: 2)
            state(board, 0).count(succeeded: 0, failed: 30)
            state(board, 1).count(succeeded: 30, failed: 0)
            expect(empty: board.tick(now: start, random: 0))
            expect(state(board, 0).word.isUsable)
            expect(state(board, 0).takeOutcomes().failed == 30 && state(board, 1).takeOutcomes().succeeded == 30)
        }
        expect(new.isActive && new.table.count == 2)
        // Its settings are those of the new one, and its own DNS results count.
        expect(new.replaceTargets(drained, now: start)[0].state.word.isDraining)
    }

    @Test("A reload keeps the panic of the board")
    func panicOverReload() {
        let old = board(1)
        old.checked(testIdentity(0), isUp: false, now: start)
        _ = old.tick(now: start, random: 0)
        let new = board(1, adopting: old)
        expect(!new.isPanicking)
        new.activate(now: start)
        expect(new.isPanicking && new.tick(now: start, random: 0).isEmpty)
    }
}
