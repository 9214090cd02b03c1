import CloakroomCore
import CloakroomTelemetry

/// The deadlines of an exchange, and that of its request: the time from its head to the last byte of its response, over all
/// attempts; see ``Route/deadline``.
extension Exchange {
    /// The request has to be complete within this time.
    /// - Parameter time: Nanoseconds from its head, more than 0. An earlier deadline stays.
    func limitTime(to time: UInt64) {
        let deadline = min(telemetry.startedAt.addingClamped(time), callDeadline ?? .max)
        callDeadline = deadline
        downstream?.limitDeadlines(to: deadline)
    }

    /// The exchange has ended, or its deadline has been handled.
    func endTimeLimit() {
        callDeadline = nil
        isDeadlineOfClient = false
        downstream?.limitDeadlines(to: .max)
    }

    /// Nanoseconds until the deadline; the greatest value without one.
    func timeLeft(now: UInt64) -> UInt64 {
        guard let callDeadline else { return .max }
        return callDeadline > now ? callDeadline - now : 0
    }

    /// The deadline has passed: 504, or the response is aborted.
    func callExpired(now: UInt64) {
        switch machine.state {
        case .suspended:
            // Work off the event loop has its own limits and always completes; the deadline applies afterwards.
            downstream?.limitDeadlines(to: .max)
            downstream?.setDeadline(.max)
        case .waitingForConnection:
            endTimeLimit()
            cancelLease()
            upstreamFailed(UpstreamFailure(.responseTimeout), .pass(.deadline, reason: nil))
        case .awaitingResponse:
            // A deadline that leaves no time is no failure of the target, and a client's own deadline not by itself: it
            // counts like a client that left.
            let since = telemetry.awaitedSince
            if isDeadlineOfClient {
                reportCancellation()
            } else if machine.isRequestComplete, now > since, now - since >= RetryDecision.minRemaining {
                reportFailure()
            }
            endTimeLimit()
            cancelUpstream()
            upstreamFailed(UpstreamFailure(.responseTimeout), .pass(.deadline, reason: nil))
        case .gathering:
            endTimeLimit()
            telemetry.failed(.requestTimeout)
            respond(ProblemDocument(Problem(.requestTimeout)), now: now)
        case .streamingResponse, .tunneling, .tunnelHalfClosed:
            abortResponse(.upstreamTimeout)
        case .idle, .bufferingBody, .respondingLocally:
            endTimeLimit()
        }
    }

    /// The last deadline set has passed.
    func deadlineExpired(now: UInt64) {
        if transfer != nil, machine.state == .suspended { return fileUnavailable(retryAfter: 2) }
        if let callDeadline, callDeadline <= now { return callExpired(now: now) }
        downstream?.setDeadline(.max)
        if let action = tunnel?.deadlineExpired(now: now), execute(action, now: now) { return }
        if clientMayContinue(now: now) { return }
        switch machine.deadlineExpired() {
        case .requestTimeout:
            guard !isUploadPaused else {
                cancelUpstream()
                return upstreamFailed(UpstreamFailure(.responseTimeout), isStale: false)
            }
            if machine.state != .bufferingBody { slowClient(.upload, .rate) }
            cancelUpstream()
            telemetry.failed(.requestTimeout)
            respond(ProblemDocument(Problem(.requestTimeout)), now: now)
        case .responseTimeout:
            responseTimedOut(now: now)
        case .cut:
            if drainCredit?.isBehind == true {
                slowClient(.download, .rate)
                return abortResponse(.clientTooSlow)
            }
            abortResponse(.upstreamTimeout)
        case .nothing:
            break
        }
    }
}
