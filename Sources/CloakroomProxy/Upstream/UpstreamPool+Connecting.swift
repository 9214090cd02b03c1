import CloakroomCore
import CloakroomTelemetry

/// Connection attempts: begun for waiters, and their results.
extension UpstreamPool {
    /// Selects a target for an attempt and begins it.
    func connect(_ attempt: PooledConnectionID) {
        var next: PooledConnectionID? = attempt
        while let attempt = next {
            next = nil
            switch pick(tried: .none) {
            case .target(let choice): connect(attempt, to: choice.first)
            case .reject(.cap): perform(machine.abandon(attempt))
            case .reject(.noTarget):
                guard case .fail(let waiters, let permit) = machine.connectFailed(attempt, mayTryOther: false) else {
                    return
                }
                fail(waiters, UpstreamFailure(.unreachable), on: nil, tries: 0, duration: 0)
                // A loop, because each waiter may need a turn of it.
                if case .connect(let attempt) = permit { next = attempt } else { perform(permit) }
            }
        }
    }

    func connect(_ attempt: PooledConnectionID, to index: Int) {
        machine.begin(attempt, on: index)
        connector.connect(attempt, to: targets.targets[index])
    }

    /// A connection was established.
    /// - Parameter streams: Number of requests that it can serve at the same time.
    func connected(_ link: UpstreamLink, streams: Int) {
        perform(machine.connected(link, streams: streams))
        // A connection may serve fewer requests than expected.
        if protocolVersion.allowsHTTP2 { serveFurther(after: link) }
        if machine.isHeld { awaitPlace() }
    }

    /// Maximum number of targets that the connection attempts for a request try, if its route permits retries.
    /// - Parameter tried: Number of targets that it was sent to before.
    func maxTargets(after tried: Int) -> Int { max(connectTargets - tried, 1) }

    /// Number of targets that a connection attempt may try: as many as the request permits that has waited longest, because
    /// the attempt is expected to serve it.
    var targetsToTry: Int { min(machine.oldestWaiter?.maxTargets ?? connectTargets, targets.targets.count) }

    /// Whether the targets that are not usable are used too.
    var isPanicking: Bool { upstream.targets.board.isPanicking }

    /// Another target for an attempt; `nil` if there is none.
    func otherTarget(tried: TriedTargets) -> (choice: TargetPicker.Choice, target: TargetRuntime)? {
        guard case .target(let choice) = pick(tried: tried) else { return nil }
        return (choice, targets.targets[choice.first])
    }

    /// A target could not be connected to.
    /// - Parameters:
    ///   - target: The target that was tried last.
    ///   - startedAt: When the first connection attempt of the lease began.
    ///   - tries: Number of targets that were tried.
    ///   - next: The target to try next.
    /// - Returns: Whether to try it.
    @discardableResult
    func connectFailed(
        _ attempt: PooledConnectionID, _ failure: UpstreamFailure, on target: TargetRuntime?, startedAt: UInt64,
        tries: Int, next: TargetPicker.Choice?
    ) -> Bool {
        // A request that permits fewer targets than others fails alone.
        let isAlone = next == nil && tries < connectTargets && tries >= machine.oldestWaiter?.maxTargets ?? .max
        switch machine.connectFailed(attempt, mayTryOther: next != nil, failing: isAlone ? 1 : .max) {
        case .connectOther(let attempt):
            guard let next else { return false }
            machine.begin(attempt, on: next.first)
            upstream.metrics.retries[.connect]?[.sent]?.increment()
            machine.oldestWaiter?.delegate.upstreamConnectRetried()
            return true
        case .fail(let waiters, let permit):
            if let next { abandon(next) }
            fail(waiters, failure, on: target, tries: tries, duration: context.now &- startedAt)
            perform(permit)
            return false
        }
    }

    private func fail(
        _ waiters: [Waiter], _ failure: UpstreamFailure, on target: TargetRuntime?, tries: Int, duration: UInt64
    ) {
        for waiter in waiters {
            left(waiter)
            if waiter.maxTargets > 1 {
                upstream.metrics.retries[.connect]?[tries < waiter.maxTargets ? .noTarget : .notReplayable]?.increment()
            }
            waiter.delegate.upstreamConnectFailed(failure, target: target?.index, duration: duration)
        }
    }
}
