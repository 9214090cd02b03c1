import CloakroomCore
import Synchronization

/// Offers targets in the order of the configuration and records their reports.
final class RecordedTargets: TargetSelecting {
    enum Report: Equatable, Sendable {
        case reached(Int)
        case failed(Int, ConnectFailure)
    }

    private struct State {
        var reports: [Report] = []
        var followUps: [Bool] = []
    }

    private let count: Int
    private let state = Mutex(State())

    init(_ count: Int) {
        self.count = count
    }

    var reports: [Report] { state.withLock { $0.reports } }
    /// For each requested target, whether it was for a follow-up.
    var followUps: [Bool] { state.withLock { $0.followUps } }

    func chooseTarget(isFollowUp: Bool, tried: [Int], now: UInt64) -> Int? {
        state.withLock { $0.followUps.append(isFollowUp) }
        return (0..<count).first { !tried.contains($0) }
    }

    func targetReached(_ index: Int) { state.withLock { $0.reports.append(.reached(index)) } }

    func targetFailed(_ index: Int, _ failure: ConnectFailure, _ error: any Error, startedAt: UInt64, now: UInt64) {
        state.withLock { $0.reports.append(.failed(index, failure)) }
    }
}
