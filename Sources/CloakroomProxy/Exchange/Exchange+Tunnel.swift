import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Answers without an end of their own: tunnels and event streams. They go on for as long as somebody says something, and
/// not longer than the session that they belong to.
extension Exchange {
    /// Looks whether the request asks for a tunnel, and may have one.
    /// - Returns: Whether it can be served at all.
    func resolveUpgrade(_ route: RouteRuntime) -> Bool {
        if tunnel == .none, summary.requestsWebSocket, record.method == .get, framing == .none,
            protocolVersion == .http1_1
        {
            tunnel = .webSocketUpgrade
        }
        switch tunnel {
        case .none: return true
        case .webSocketUpgrade:
            // Without leave the upgrade is ignored, as it may be (RFC 9110 §7.8).
            if !route.route.allowsWebSocket { tunnel = .none }
            return true
        case .webSocketConnect: return route.route.allowsWebSocket
        case .unknown: return false
        }
    }

    /// The upstream changed the protocol.
    func upstreamSwitched(_ head: borrowing ResponseHead) {
        guard machine.switched(), let downstream else { return }
        record.status = UInt16(clamping: head.status)
        downstreamFrames = WebSocketFrameTracker()
        upstreamFrames = WebSocketFrameTracker()
        downstream.writeUpgradeResponse(head)
        downstream.flush()
        // It was asked for before the gateway was told to stop.
        guard !isToEnd else { return closeTunnel(.goingAway) }
        resetIdleTimer()
        checkSnapshotChange()
        guard machine.isRelaying else { return }
        downstream.resumeRequestBody()
    }

    /// The upstream's side of the tunnel has ended; the client's may go on.
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

    /// The connection to the upstream is gone: what the client still says through a tunnel reaches nobody.
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

    /// The gateway is told to stop: what has no end of its own ends now, so that clients go elsewhere in time.
    func drain() {
        isDrained = true
        if isTunnel || (isEndlessStream && machine.isRelaying) { closeTunnel(.goingAway) }
    }

    /// Whether the gateway, or the connection, is told to stop: what begins now and has no end of its own ends at once.
    var isToEnd: Bool { isDrained || context.isDraining }

    /// An answer without an end has begun. Other tables may have come into effect since it was asked for.
    func checkSnapshotChange() {
        if snapshot !== context.snapshot { configurationReplaced() }
    }

    /// Other tables are in effect. What has an end of its own finishes with the old ones; what has none goes on only if
    /// its route is there as it was.
    func configurationReplaced() {
        guard idleDeadline != nil, machine.isOpenEnded, let permit else { return }
        let config = snapshot.config
        guard !context.snapshot.config.containsEquivalent(config.routes[permit.route].route, of: config) else { return }
        closeTunnel(.goingAway)
    }

    // MARK: - Silence and sessions

    /// How often the session behind an endless answer is looked at, in nanoseconds.
    private static let sessionInterval: UInt64 = 1_000_000_000

    /// Something was said just now.
    func resetIdleTimer() {
        let now = context.now
        let deadline = now &+ snapshot.timeouts.tunnelIdle
        // However much is said, the session is looked at in time.
        if idleDeadline == nil { sessionDeadline = now &+ Self.sessionInterval }
        idleDeadline = deadline
        downstream?.setDeadline(isSessionWatched ? min(deadline, sessionDeadline) : deadline)
    }

    /// Looks at an endless answer: whether its session still lives, and whether it was silent for too long.
    /// - Returns: Whether it goes on, or has been ended here.
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

    /// Asking for a tunnel is not having one: the upstream may have answered in another way.
    private var isTunnel: Bool {
        switch machine.state {
        case .tunneling, .tunnelHalfClosed: true
        default: false
        }
    }

    private func hasSessionEnded(at now: UInt64) -> Bool {
        guard let ticket else { return true }
        // What the client says through a tunnel is use of its session.
        let lookup = snapshot.config.sessions.lookup(
            ticket, key: &sessionKey, now: context.sessionTimestamp(at: now), slides: hasClientActivity)
        hasClientActivity = false
        switch lookup {
        case .active: return false
        case .missing: return true
        case .notCached:
            // However long the store is not there: this is known of the session, and cannot change.
            if let end = permit?.sessionEnd, context.sessionTimestamp(at: now) >= end { return true }
            loadTunnelSession(ticket, now: now)
            return false
        }
    }

    /// The session is not at hand any more: whoever has it is asked, and the answer goes on meanwhile.
    private func loadTunnelSession(_ ticket: SessionTicket, now: UInt64) {
        guard !isSessionLoading else { return }
        isSessionLoading = true
        let store = snapshot.config.sessions
        let timestamp = context.sessionTimestamp(at: now)
        let started = startedAt
        OffLoop.run(self, on: context.eventLoop) { () -> Bool in
            // A store that cannot be reached ends nothing.
            guard let lookup = try? await store.load(ticket, now: timestamp), case .missing = lookup else {
                return false
            }
            return true
        } resume: { exchange, isOver in
            exchange.context.updateTime()
            // Another request may be under way on this connection by now.
            guard exchange.startedAt == started, exchange.idleDeadline != nil else { return }
            exchange.isSessionLoading = false
            if isOver, exchange.machine.isOpenEnded { exchange.closeTunnel(.policyViolation) }
        }
    }

    /// Ends what has no end of its own. Both sides of a WebSocket are told why, where they can be. An event stream is
    /// ended as its framing has it when the gateway stops, and cut when its session has ended or its route is gone.
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

    /// Ends an event stream: its client sees a complete answer and connects again (HTML §9.2.3). The last event may be cut
    /// short, and clients drop such a one.
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
