import TestSupport
import Testing

@testable import CloakroomCore

private let second: UInt64 = 1_000_000_000
private let start: UInt64 = 1_000 * second

@Suite("Order of targets for identity calls")
struct TargetOrderingTests {
    private func board(_ targets: [TargetSpecification]) -> UpstreamBoard {
        UpstreamBoard(name: "api", settings: BoardSettings(), targets: targets, now: start)
    }

    private func board(_ count: Int) -> UpstreamBoard {
        board((0..<count).map { TargetSpecification(testIdentity($0), configurationIndex: $0) })
    }

    private func call(
        _ board: UpstreamBoard, _ target: Int, _ outcome: TargetOutcome, at now: UInt64 = start,
        after: UInt64 = 1_000_000
    ) {
        let state = board.started(target, now: now)
        board.ended(state, outcome, startedAt: now, now: now + after, random: 0)
    }

    @Test("Calls begin at another target each time, while nothing is known")
    func turns() {
        let board = board(3)
        expect((0..<4).map { _ in board.order(now: start) }, equals: [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]])
        expect(empty: self.board(0).order(now: start))
    }

    @Test("The target with the lower cost is first, and lower tiers before higher ones")
    func cost() {
        let board = board([
            TargetSpecification(testIdentity(0), tier: 1, configurationIndex: 0),
            TargetSpecification(testIdentity(1), configurationIndex: 1),
            TargetSpecification(testIdentity(2), configurationIndex: 2),
        ])
        call(board, 1, .succeeded, after: 50_000_000)
        call(board, 2, .succeeded, after: 10_000_000)
        for _ in 0..<3 { expect(board.order(now: start + second), equals: [2, 1, 0]) }
        expect(board.table.entries.allSatisfy { $0.state.inFlight == 0 && $0.state.owingHeads == 0 })
    }

    @Test("A target in back-off is last until its time has passed, then one call probes it")
    func backOff() {
        let board = board(2)
        call(board, 0, .connectFailed, after: 0)
        for _ in 0..<3 { expect(board.order(now: start), equals: [1, 0]) }
        expect(board.order(now: start + second), equals: [0, 1])
        expect(board.order(now: start + second), equals: [1, 0])
        call(board, 0, .succeeded, at: start + second)
        expect(board.table.entries.allSatisfy { $0.state.word.isUsable })
    }

    @Test("An ejected target is not probed by a call before a minute has passed")
    func ejected() {
        let board = board(3)
        for _ in 0..<5 { call(board, 0, .failed) }
        expect(board.table[0].state.word.circuit, equals: .ejected)
        for _ in 0..<3 { expect(board.order(now: start + 60 * second).last, equals: 0) }
        expect(board.order(now: start + 71 * second).first, equals: 0)
        expect(board.order(now: start + 71 * second).last, equals: 0)
    }

    @Test("Targets that are not usable are ordered by the end of their time, draining ones are left out")
    func unusable() {
        let board = board(4)
        let table = board.table
        table[0].state.apply(.ejected(times: .standard, random: 0), now: start)
        table[1].state.apply(.connectFailed(startedAt: 0, times: .standard, random: 0), now: start)
        table[2].state.apply(.checkFailed, now: start)
        table[3].state.apply(.drained, now: start)
        expect(board.order(now: start), equals: [2, 1, 0])
        for entry in table.entries { entry.state.apply(.drained, now: start) }
        expect(board.order(now: start).count, equals: 4)
    }

    @Test("A name with several addresses is one target: its best address counts, its calls are not attributed")
    func addresses() {
        let board = board([
            TargetSpecification(testIdentity(0, address: "10.0.0.1"), configurationIndex: 0),
            TargetSpecification(testIdentity(0, address: "10.0.0.2"), configurationIndex: 0),
            TargetSpecification(testIdentity(1), configurationIndex: 1),
        ])
        expect(Set(board.order(now: start)), equals: [0, 1])
        expect(board.started(0, now: start) == nil && board.started(1, now: start) != nil)
        expect(board.started(9, now: start) == nil)
        board.ended(nil, .failed, startedAt: start, now: start, random: 0)
        board.table[0].state.apply(.checkFailed, now: start)
        board.table[2].state.headReceived(after: 50_000_000, now: start)
        expect(board.order(now: start).first, equals: 0)
        // Its back-off cannot be probed by a call, whose address is unknown.
        board.table[1].state.apply(.connectFailed(startedAt: 0, times: .standard, random: 0), now: start)
        expect(board.order(now: start + 5 * second), equals: [1, 0])
        expect(!board.table[1].state.word.isProbing)
    }

    @Test("A cancelled call and one in flight count as those of requests do")
    func counted() {
        let board = board(2)
        let state = board.started(0, now: start)
        expect(board.table[0].state.inFlight, equals: 1)
        expect(board.order(now: start + second), equals: [1, 0])
        board.ended(state, .cancelled, startedAt: start, now: start + 2 * second, random: 0)
        expect(board.table[0].state.estimatedLatency(now: start + 2 * second), equals: 2 * second)
    }
}
