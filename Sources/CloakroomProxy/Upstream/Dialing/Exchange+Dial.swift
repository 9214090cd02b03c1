import CloakroomTelemetry

extension Exchange {
    /// No target of the upstream could be reached. Metrics and the access log report it as a failed upstream request.
    /// - Parameters:
    ///   - target: Index in ``ConfigSnapshot/targets`` of the target that was tried last.
    ///   - duration: Duration of the attempts, in nanoseconds.
    func connectFailed(_ failure: UpstreamFailure, target: Int, duration: UInt64) {
        record.upstreamIndex = target
        record.upstreamStatus = 0
        record.upstreamDurationNanoseconds = duration
        leaseFailed(failure)
    }
}
