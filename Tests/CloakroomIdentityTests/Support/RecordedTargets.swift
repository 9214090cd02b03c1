import CloakroomCore
import Synchronization

/// Offers targets in the order of the configuration and records the reports.
final class RecordedTargets: TargetSelecting {
    enum Report: Equatable, Sendable {
        case connected(Int)
        case connectFailed(Int, ConnectFailure)
        case ended(Int, TargetOutcome)
    }

    private struct State {
        var reports: [Report] = []
        /// Calls that have begun and not ended, by target.
        var calls: [Int]
    }

    private let state: Mutex<State>

    init(_ count: Int) {
        state = Mutex(State(calls: Array(repeating: 0, count: count)))
    }

    var reports: [Report] { state.withLock { $0.reports } }
    /// Whether each call that began has ended exactly once.
    var isBalanced: Bool { state.withLock { $0.calls.allSatisfy { $0 == 0 } } }

    func order(now: UInt64) -> [Int] { state.withLock { Array($0.calls.indices) } }

    func connected(_ target: Int, now: UInt64) { state.withLock { $0.reports.append(.connected(target)) } }

    func started(_ target: Int, now: UInt64) -> TargetState? {
        state.withLock { $0.calls[target] += 1 }
        return nil
    }

    func ended(
        _ target: Int, _ state: TargetState?, _ outcome: TargetOutcome, startedAt: UInt64, now: UInt64
    ) {
        self.state.withLock {
            if outcome != .connectFailed { $0.reports.append(.ended(target, outcome)) }
            $0.calls[target] -= 1
        }
    }

    func record(_ target: Int, _ failure: ConnectFailure, _ error: any Error, now: UInt64) {
        state.withLock { $0.reports.append(.connectFailed(target, failure)) }
    }
}
