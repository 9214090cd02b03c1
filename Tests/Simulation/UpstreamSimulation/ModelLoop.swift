import CloakroomCore
import CloakroomProxy
import CloakroomWire

/// What one event loop of the gateway has of the upstream.
struct ModelLoop {
    var pool: UpstreamPoolStateMachine<ModelConnection, Int>
    /// The counter of `roundRobin`.
    var turn: UInt32 = 0
    /// Outcomes of the targets since the last tick.
    var succeeded: [Int]
    var failed: [Int]
    /// Requests that were sent for the first time since the last tick.
    var firstAttempts = 0
    var isExpiryScheduled = false
}

final class ModelConnection: PooledConnection {
    let poolID: PooledConnectionID
    let target: Int
    private let state: TargetState
    private unowned let world: World

    init(_ id: PooledConnectionID, to target: Int, _ state: TargetState, of world: World) {
        poolID = id
        self.target = target
        self.state = state
        self.world = world
    }

    var isTargetUsable: Bool { state.word.isUsable || world.board.isPanicking }
}

/// A connection attempt in progress.
struct Attempt {
    var id: PooledConnectionID
    var loop: Int
    var target: Int
    var startedAt: UInt64
}

extension Scenario {
    var boardSettings: BoardSettings {
        BoardSettings(balance: balance, eject: eject, retry: retry, probeTime: headTimeout)
    }

    /// The targets of the board, without those that are absent.
    func specifications(_ targets: [ModelTarget]) -> [TargetSpecification] {
        weights.indices.compactMap { index in
            if case .absent = targets[index].incident { return nil }
            let identity = TargetIdentity(upstream: "api", scheme: .http, host: "target-\(index)", port: 80)
            return TargetSpecification(identity, weight: weights[index], configurationIndex: index)
        }
    }
}
