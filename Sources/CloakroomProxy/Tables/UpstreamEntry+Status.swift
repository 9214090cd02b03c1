import CloakroomCore
import NIOCore

extension UpstreamRuntime {
    /// How it does at the moment, for operators.
    var status: UpstreamStatus { status(now: NIODeadline.now().uptimeNanoseconds) }

    /// How it does, for operators.
    /// - Parameter now: Nanoseconds of the clock by which event loops go: `NIODeadline`'s.
    func status(now: UInt64) -> UpstreamStatus {
        UpstreamStatus(name: configuration.name, targets: targets.map { $0.status(now: now) })
    }
}

extension TargetRuntime {
    /// How it does, for operators.
    /// - Parameter now: Nanoseconds of a clock that never goes backwards.
    func status(now: UInt64) -> UpstreamStatus.Target {
        UpstreamStatus.Target(
            address: address, circuit: circuit.state(now: now), lastFailure: circuit.lastFailure)
    }
}
