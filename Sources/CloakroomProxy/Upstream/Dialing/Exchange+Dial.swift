import CloakroomTelemetry

extension Exchange {
    /// No target of the upstream could be reached: to metrics and the access log a call that failed.
    /// - Parameters:
    ///   - target: Index of the target that was tried last in ``ConfigSnapshot/targets``.
    ///   - duration: How long it was tried, in nanoseconds.
    func connectFailed(_ failure: UpstreamFailure, target: Int, duration: UInt64) {
        record.upstreamIndex = target
        record.upstreamStatus = 0
        record.upstreamDurationNanoseconds = duration
        leaseFailed(failure)
    }
}
