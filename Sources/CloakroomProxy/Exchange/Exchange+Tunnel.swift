import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Answers without an end of their own: tunnels and event streams. They go on for as long as somebody says something, and
/// not longer than the session that they belong to.
extension Exchange {
    /// Looks whether the request asks for a tunnel, and may have one.
    /// - Returns: Whether it can be served at all.
    func settleTunnel(_ route: RouteEntry) -> Bool {
        if tunnel == .none, marks.wantsWebSocket, record.method == .get, framing == .none, protocolVersion == .http1_1 {
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
        toClient = WebSocketFrameScan()
        toUpstream = WebSocketFrameScan()
        downstream.writeSwitch(head)
        downstream.flush()
        // It was asked for before the gateway was told to stop.
        guard !isToEnd else { return endTunnel(.goingAway) }
        watchSilence()
        reviewGeneration()
        guard machine.isRelaying else { return }
        downstream.continueBody()
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
    func upstreamGone() {
        guard machine.state == .tunnelEnding else { return }
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
        downstream?.exchangeFinished()
    }

    /// The gateway is told to stop: what has no end of its own ends now, so that clients go elsewhere in time.
    func drain() {
        isDrained = true
        if isTunnel || (isEndlessStream && machine.isRelaying) { endTunnel(.goingAway) }
    }

    /// Whether the gateway, or the connection, is told to stop: what begins now and has no end of its own ends at once.
    var isToEnd: Bool { isDrained || context.isDraining }

    /// An answer without an end has begun. Other tables may have come into effect since it was asked for.
    func reviewGeneration() {
        if generation !== context.generation { tablesReplaced() }
    }

    /// Other tables are in effect. What has an end of its own finishes with the old ones; what has none goes on only if
    /// its route is there as it was.
    func tablesReplaced() {
        guard silenceDeadline != nil, machine.isOpenEnded, let permit else { return }
        let tables = generation.tables
        guard !context.generation.tables.serves(tables.routes[permit.route].route, of: tables) else { return }
        endTunnel(.goingAway)
    }

    // MARK: - Silence and sessions

    /// How often the session behind an endless answer is looked at, in nanoseconds.
    private static let sessionInterval: UInt64 = 1_000_000_000

    /// Something was said just now.
    func watchSilence() {
        let now = context.now
        let deadline = now &+ generation.timeouts.tunnelIdle
        // However much is said, the session is looked at in time.
        if silenceDeadline == nil { sessionDeadline = now &+ Self.sessionInterval }
        silenceDeadline = deadline
        downstream?.setDeadline(isSessionWatched ? min(deadline, sessionDeadline) : deadline)
    }

    /// Looks at an endless answer: whether its session still lives, and whether it was silent for too long.
    /// - Returns: Whether it goes on, or has been ended here.
    func goesOn(at now: UInt64) -> Bool {
        guard machine.isOpenEnded, let silenceDeadline else { return false }
        if isSessionWatched, hasSessionEnded(at: now) {
            endTunnel(.policyViolation)
            return true
        }
        guard silenceDeadline > now else { return false }
        sessionDeadline = now &+ Self.sessionInterval
        downstream?.setDeadline(isSessionWatched ? min(silenceDeadline, sessionDeadline) : silenceDeadline)
        return true
    }

    private var isSessionWatched: Bool { permit?.hasSession == true }

    /// Asking for a tunnel is not having one: the upstream may have answered in another way.
    private var isTunnel: Bool {
        switch machine.state {
        case .tunnelling, .tunnelEnding: true
        default: false
        }
    }

    private func hasSessionEnded(at now: UInt64) -> Bool {
        guard let ticket else { return true }
        // What the client says through a tunnel is use of its session.
        let lookup = generation.tables.sessions.find(
            ticket, key: &sessionKey, now: context.sessionTime(at: now), slides: hasClientBytes)
        hasClientBytes = false
        switch lookup {
        case .live: return false
        case .none: return true
        case .unknown:
            // However long the store is not there: this is known of the session, and cannot change.
            if let end = permit?.sessionEnd, context.sessionTime(at: now) >= end { return true }
            loadTunnelSession(ticket, now: now)
            return false
        }
    }

    /// The session is not at hand any more: whoever has it is asked, and the answer goes on meanwhile.
    private func loadTunnelSession(_ ticket: SessionTicket, now: UInt64) {
        guard !isSessionLoading else { return }
        isSessionLoading = true
        let store = generation.tables.sessions
        let timestamp = context.sessionTime(at: now)
        let begun = startedAt
        ColdPathBridge.run(self, on: context.eventLoop) { () -> Bool in
            // A store that cannot be reached ends nothing.
            guard let lookup = try? await store.load(ticket, now: timestamp), case .none = lookup else { return false }
            return true
        } resume: { exchange, isOver in
            exchange.context.beginEvent()
            // Another request may be under way on this connection by now.
            guard exchange.startedAt == begun, exchange.silenceDeadline != nil else { return }
            exchange.isSessionLoading = false
            if isOver, exchange.machine.isOpenEnded { exchange.endTunnel(.policyViolation) }
        }
    }

    /// Ends what has no end of its own. Both sides of a WebSocket are told why, where they can be. An event stream is
    /// ended as its framing has it when the gateway stops, and cut when its session has ended or its route is gone.
    func endTunnel(_ code: WebSocketClose.Code) {
        let error: ExchangeError = code == .goingAway ? .draining : .sessionEnded
        if !isTunnel, isEndlessStream, code == .goingAway, isToEnd { return endStream() }
        guard isTunnel, let downstream else { return cut(error) }
        if toClient.isAtBoundary, machine.isRelaying {
            downstream.writeBody(WebSocketClose.frame(code, mask: nil))
        }
        downstream.writeEnd(trailers: nil)
        downstream.flush()
        if toUpstream.isAtBoundary {
            upstream?.writeBody(
                WebSocketClose.frame(code, mask: UInt32(truncatingIfNeeded: context.random())))
            upstream?.flush()
        }
        cancelUpstream()
        machine.finish()
        finish(errorType: error)
        downstream.exchangeFinished()
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
        downstream.exchangeFinished()
    }
}
