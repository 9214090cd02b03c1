import CloakroomCore
import NIOCore

extension UpstreamRuntime {
    /// Current status, for operators.
    var status: UpstreamStatus { status(now: NIODeadline.now().uptimeNanoseconds) }

    /// Status for operators.
    /// - Parameter now: Nanoseconds of the event loops' clock (`NIODeadline`).
    func status(now: UInt64) -> UpstreamStatus {
        UpstreamStatus(name: configuration.name, targets: targets.map { $0.status(now: now) })
    }
}

extension TargetRuntime {
    /// Status for operators.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    func status(now: UInt64) -> UpstreamStatus.Target {
        UpstreamStatus.Target(
            address: address, circuit: circuit.state(now: now), lastFailure: circuit.lastFailure)
    }
}
