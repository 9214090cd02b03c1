import Synchronization

extension UpstreamBoard {
    /// A request that began at `startedAt` got a response head. Needed only if
    /// ``TargetState/headReceived(after:now:isTimed:)`` returned `true`.
    public func requestSucceeded(_ target: TargetState, startedAt: UInt64, now: UInt64) {
        returned(target, by: .requestSucceeded(startedAt: startedAt), now: now)
    }

    /// Applies an event that may close the circuit. The failures before it have left an estimate that would keep the
    /// target from its share for several half-lives: the next request measures it anew.
    private func returned(_ target: TargetState, by event: TargetEvent, now: UInt64) {
        let (before, after) = target.apply(event, now: now)
        if before.circuit != .closed, after.circuit == .closed { target.forgetEstimate() }
    }

    /// A request failed: no response head, an invalid one, or one that counts as a failure, but not a failed connection
    /// attempt. Includes ``TargetState/failed(after:now:)``.
    /// - Parameters:
    ///   - duration: Nanoseconds since it was sent.
    ///   - startedAt: When it was assigned to the target.
    ///   - random: Random bits, for the jitter of an ejection.
    public func requestFailed(
        _ target: TargetState, after duration: UInt64, startedAt: UInt64, now: UInt64, random: UInt64
    ) {
        let inRow = target.failed(after: duration, now: now)
        if target.word.circuit != .closed {
            apply(.requestFailed(startedAt: startedAt, times: times, random: random), to: target, now: now)
        } else if settings.eject.consecutive > 0, inRow >= settings.eject.consecutive {
            members.withLock {
                _ = $0.eject(
                    target, .consecutive, most: settings.eject.most, times: times, random: random, now: now)
            }
        }
    }

    /// A connection attempt failed. Includes ``TargetState/failed(after:now:)``.
    /// - Parameters:
    ///   - startedAt: When it began. Attempts that began before the back-off do not extend it.
    ///   - random: Random bits, for the jitter of the back-off.
    public func connectFailed(_ target: TargetState, startedAt: UInt64, now: UInt64, random: UInt64) {
        _ = target.failed(after: now > startedAt ? now - startedAt : 0, now: now)
        apply(.connectFailed(startedAt: startedAt, times: times, random: random), to: target, now: now)
    }

    /// A connection was established: ends a back-off.
    public func connected(_ target: TargetState, now: UInt64) {
        let word = target.word
        if word.circuit != .closed || word.connectFailures != 0 { returned(target, by: .connected, now: now) }
    }

    /// A request that was selected as a probe was not sent to the target: the next request may probe it.
    public func probeAbandoned(_ target: TargetState, now: UInt64) {
        target.apply(.probeAbandoned, now: now)
    }

    /// Active checks changed the state of a target.
    public func checked(_ identity: TargetIdentity, isUp: Bool, now: UInt64) {
        let state = members.withLock { $0.states[identity] }
        guard let state else { return }
        returned(state, by: isUp ? .checkPassed : .checkFailed, now: now)
    }

    private func apply(_ event: TargetEvent, to target: TargetState, now: UInt64) {
        let (before, after) = target.apply(event, now: now)
        guard before != after, after.circuit == .ejected else { return }
        members.withLock { $0.reportEjection(of: target, .probe, after, now: now) }
    }
}
