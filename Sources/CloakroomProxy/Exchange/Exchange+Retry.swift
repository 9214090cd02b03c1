import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// How often a request was sent, and to which targets.
struct RequestAttempts {
    /// Number of times that it was sent; replays after status 401 included.
    private(set) var sends = 0
    /// Number of replays after status 401.
    private(set) var replays = 0
    /// Number of sends on connections that a target ended in order: it did not fail, so it was not tried.
    private(set) var endedInOrder = 0
    var failed = TriedTargets.none
    /// Time at which the response head is due, over all attempts, in nanoseconds; 0 before the request was sent.
    var headDeadline: UInt64 = 0
    /// Whether an interim response reached the client.
    var hasSentInterim = false

    /// Number of targets that were tried.
    var targets: Int { sends - replays - endedInOrder }

    mutating func sent() { sends += 1 }

    /// It is sent again because its target ended the connection in order.
    mutating func connectionEnded() {
        endedInOrder += 1
        failed = .none
    }

    /// Nanoseconds until the response head is due. A connection may fail before the whole request is written.
    func remaining(now: UInt64) -> UInt64 {
        if headDeadline == 0 { return .max }
        return headDeadline > now ? headDeadline - now : 0
    }

    /// It is sent again with another token: the time for the response head begins anew.
    mutating func replayed() {
        replays += 1
        headDeadline = 0
    }

    /// The exchange has ended.
    mutating func reset() {
        if sends > 0 { self = RequestAttempts() }
    }
}

/// Sends a request again after a failure of its target, if ``RetryDecision`` permits it.
extension Exchange {
    /// Decides whether the request is sent again. Takes the budget for it.
    /// - Parameter isTargetWell: Whether the target only ended a connection.
    func retryDecision(
        after failure: RetryDecision.Failure, isTargetWell: Bool = false, now: UInt64
    ) -> RetryDecision {
        guard let pool, let route, machine.state == .awaitingResponse(.complete) else {
            return .pass(.notConfigured, reason: nil)
        }
        let targets = pool.retryTargets(failed: attempts.failed)
        // A connection that its target ended in order uses up no attempt if there is another target to try.
        var situation = RetryDecision.Situation(
            failure, method: request.method,
            attempts: targets == .other ? attempts.targets : attempts.sends - attempts.replays, sends: attempts.sends,
            remaining: min(attempts.remaining(now: now), timeLeft(now: now)))
        situation.isResponseStarted = attempts.hasSentInterim
        situation.isTunnel = request.upgrade != .none
        situation.isBodyBuffered = replay.canReplay(request.framing)
        situation.isPermitted = route.route.retry
        situation.isTargetWell = isTargetWell
        situation.isCall = route.route.grpc
        situation.targets = targets
        let decision = RetryDecision.decide(
            situation, pool.upstream.configuration.retry, budget: pool.upstream.targets.board.budget,
            random: context.random())
        if case .pass(let obstacle, .some(let reason)) = decision {
            pool.upstream.metrics.retries[reason]?[UpstreamRetryOutcome(obstacle)]?.increment()
        }
        return decision
    }

    /// Sends the request again, as decided. The state machine waits for a connection already.
    func sendAgain(_ decision: RetryDecision, now: UInt64) {
        switch decision {
        case .retryOther(let reason):
            countRetry(reason)
            lease(isFresh: false, now: now)
        case .retryFresh(let reason):
            countRetry(reason)
            attempts.connectionEnded()
            lease(isFresh: true, now: now)
        case .retryAny(let reason, let delay):
            countRetry(reason)
            // The only target may be used again.
            attempts.failed = .none
            downstream?.setDeadline(.max)
            let time = TimeAmount.nanoseconds(Int64(clamping: delay))
            context.eventLoop.assumeIsolated().scheduleTask(in: time) { [self, number] in
                let now = context.updateTime()
                // The client may have left, and its connection may serve another request.
                guard self.number == number, machine.state == .waitingForConnection(.complete) else { return }
                lease(isFresh: true, now: now)
            }
        case .pass:
            break
        }
    }

    private func countRetry(_ reason: RetryReason) {
        telemetry.retried(reason)
        pool?.upstream.metrics.retries[reason]?[.sent]?.increment()
    }

    /// The response status is one after which the request may be sent again.
    /// - Returns: Whether it is being sent again. Otherwise the response is forwarded.
    func retryStatus(_ head: borrowing ResponseHead) -> Bool {
        guard head.status >= 502, let pool, pool.upstream.configuration.retry.statuses.contains(head.status) else {
            return false
        }
        let now = context.now
        let hasRetryAfter = head.fields.contains { $0.name == .retryAfter }
        if let upstream { attempts.failed.insert(upstream.slot) }
        let decision = retryDecision(after: .status(head.status, hasRetryAfter: hasRetryAfter), now: now)
        if case .pass = decision { return false }
        guard machine.upstreamFailed(mayRetry: true) == .retry else { return false }
        upstream?.discardResponse()
        leaveUpstream()
        telemetry.endRejectedAttempt(status: head.status)
        sendAgain(decision, now: now)
        return true
    }

    /// The target has not responded within the time for an attempt, or for all of them.
    func responseTimedOut(now: UInt64) {
        reportFailure()
        if let upstream { attempts.failed.insert(upstream.slot) }
        cancelUpstream()
        let decision = retryDecision(after: .attemptTimeout, now: now)
        upstreamFailed(UpstreamFailure(.responseTimeout), decision)
    }

    /// Starts the time for the response head. Called when the request has been sent.
    func expectResponse() {
        guard let route else { return }
        if attempts.headDeadline == 0 { attempts.headDeadline = telemetry.awaitedSince &+ route.responseHeadTimeout }
        let attempt = pool?.attemptTimeout ?? .max
        downstream?.setDeadline(min(attempts.headDeadline, telemetry.awaitedSince.addingClamped(attempt)))
    }
}
