import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Open-ended responses: tunnels and event streams. They continue while data is transferred, at most until their
/// session ends.
extension Exchange {
    /// The upstream accepted the upgrade.
    func upstreamSwitched(_ head: borrowing ResponseHead) {
        guard machine.switched(), let downstream else { return }
        telemetry.responseStarted(status: head.status)
        downstreamFrames = WebSocketFrameTracker()
        upstreamFrames = WebSocketFrameTracker()
        downstream.writeUpgradeResponse(head)
        downstream.flush()
        // The upgrade was requested before draining began.
        guard !isToEnd else { return closeTunnel(.goingAway) }
        resetIdleTimer()
        checkSnapshotChange()
        guard machine.isRelaying else { return }
        downstream.resumeRequestBody()
    }

    /// The upstream closed its side of the tunnel; the client's side may continue.
    func upstreamHalfClosed() {
        switch machine.tunnelEnded() {
        case .halfClose:
            downstream?.writeEnd(trailers: nil)
            downstream?.flush()
        case .finish:
            finishTunnel()
        case .nothing:
            break
        }
    }

    /// The upstream connection is closed: data that the client still sends through the tunnel cannot be delivered.
    func upstreamClosed() {
        guard machine.state == .tunnelHalfClosed else { return }
        machine.finish()
        finishTunnel()
    }

    /// Both sides of the tunnel have ended.
    func finishTunnel() {
        upstream?.finishTunnel()
        upstream = nil
        downstream?.writeEnd(trailers: nil)
        downstream?.flush()
        finish(errorType: nil)
        downstream?.exchangeCompleted()
    }

    /// Draining begins: open-ended responses end now, so clients reconnect elsewhere in time.
    func drain() {
        isDrained = true
        if isTunnel || (isEndlessStream && machine.isRelaying) { closeTunnel(.goingAway) }
    }

    /// Whether the gateway or the connection is draining. If so, open-ended responses end as soon as they start.
    var isToEnd: Bool { isDrained || context.isDraining }

    /// An open-ended response has started. The configuration may have changed since its request was received.
    func checkSnapshotChange() {
        if snapshot !== context.snapshot { configurationReplaced() }
    }

    /// A new configuration is in effect. Exchanges that end by themselves complete with the old one; open-ended ones
    /// continue only if their route is unchanged.
    func configurationReplaced() {
        guard idleDeadline != nil, machine.isOpenEnded, let permit else { return }
        let config = snapshot.config
        guard !context.snapshot.config.containsEquivalent(config.routes[permit.route].route, of: config) else { return }
        closeTunnel(.goingAway)
    }

    // MARK: - Idle timeout and sessions

    /// Interval between checks of the session of an open-ended response, in nanoseconds.
    private static let sessionInterval: UInt64 = 1_000_000_000

    /// Resets the idle timer. Called after each transfer of data.
    func resetIdleTimer() {
        let now = context.now
        let deadline = now &+ snapshot.timeouts.tunnelIdle
        // Traffic must not postpone the session check.
        if idleDeadline == nil { sessionDeadline = now &+ Self.sessionInterval }
        idleDeadline = deadline
        downstream?.setDeadline(isSessionWatched ? min(deadline, sessionDeadline) : deadline)
    }

    /// Checks an open-ended response: whether its session is still active, and whether the idle timeout has passed.
    /// - Returns: Whether the response continues or was ended here.
    func checkIdleTimeout(at now: UInt64) -> Bool {
        guard machine.isOpenEnded, let idleDeadline else { return false }
        if isSessionWatched, hasSessionEnded(at: now) {
            closeTunnel(.policyViolation)
            return true
        }
        guard idleDeadline > now else { return false }
        sessionDeadline = now &+ Self.sessionInterval
        downstream?.setDeadline(isSessionWatched ? min(idleDeadline, sessionDeadline) : idleDeadline)
        return true
    }

    private var isSessionWatched: Bool { permit?.hasSession == true }

    /// A requested tunnel need not be open: the upstream may have sent an ordinary response.
    private var isTunnel: Bool {
        switch machine.state {
        case .tunneling, .tunnelHalfClosed: true
        default: false
        }
    }

    private func hasSessionEnded(at now: UInt64) -> Bool {
        guard let ticket = request.ticket else { return true }
        // Data from the client counts as use of its session.
        let lookup = snapshot.config.sessions.lookup(
            ticket, key: &sessionKey, now: context.sessionTimestamp(at: now), slides: hasClientActivity)
        hasClientActivity = false
        switch lookup {
        case .active: return false
        case .missing: return true
        case .notCached:
            // The session's absolute end is known and fixed, so it applies even if the store is unreachable.
            if let end = permit?.sessionEnd, context.sessionTimestamp(at: now) >= end { return true }
            loadTunnelSession(ticket, now: now)
            return false
        }
    }

    /// Loads the session from the store, because it is no longer cached. The response continues meanwhile.
    private func loadTunnelSession(_ ticket: SessionTicket, now: UInt64) {
        guard !isSessionLoading else { return }
        isSessionLoading = true
        let store = snapshot.config.sessions
        let timestamp = context.sessionTimestamp(at: now)
        let started = telemetry.startedAt
        OffLoop.run(self, on: context.eventLoop) { () -> Bool in
            // An unreachable store ends no session.
            guard let lookup = try? await store.load(ticket, now: timestamp), case .missing = lookup else {
                return false
            }
            return true
        } resume: { exchange, isOver in
            exchange.context.updateTime()
            // The connection may be serving another request by now.
            guard exchange.telemetry.startedAt == started, exchange.idleDeadline != nil else { return }
            exchange.isSessionLoading = false
            if isOver, exchange.machine.isOpenEnded { exchange.closeTunnel(.policyViolation) }
        }
    }

    /// Ends an open-ended response. Both sides of a WebSocket receive a close frame with the reason, if the stream is
    /// at a frame boundary. An event stream is terminated by its framing when the gateway drains, and aborted when its
    /// session has ended or its route was removed.
    func closeTunnel(_ code: WebSocketClose.Code) {
        let error: ExchangeErrorType = code == .goingAway ? .draining : .sessionEnded
        if !isTunnel, isEndlessStream, code == .goingAway, isToEnd { return endStream() }
        guard isTunnel, let downstream else { return abortResponse(error) }
        if downstreamFrames.isAtFrameBoundary, machine.isRelaying {
            downstream.writeBody(WebSocketClose.frame(code, mask: nil))
        }
        downstream.writeEnd(trailers: nil)
        downstream.flush()
        if upstreamFrames.isAtFrameBoundary {
            upstream?.writeBody(
                WebSocketClose.frame(code, mask: UInt32(truncatingIfNeeded: context.random())))
            upstream?.flush()
        }
        cancelUpstream()
        machine.finish()
        finish(errorType: error)
        downstream.exchangeCompleted()
    }

    /// Ends an event stream: its client sees a complete response and reconnects (HTML §9.2.3). The last event may be
    /// truncated; clients discard an incomplete event.
    private func endStream() {
        cancelUpstream()
        guard let downstream else { return }
        machine.finish()
        downstream.writeEnd(trailers: nil)
        downstream.flush()
        finish(errorType: .draining)
        downstream.exchangeCompleted()
    }
}
