import CloakroomCore
import CloakroomTelemetry

/// The deadline of a request: the time from its head to the last byte of its response, over all attempts; see
/// ``Route/deadline``.
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
}
