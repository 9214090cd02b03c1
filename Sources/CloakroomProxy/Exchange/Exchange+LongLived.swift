import CloakroomCore
import CloakroomWire
import NIOCore

/// Long-lived responses: tunnels and event streams.
extension Exchange {
    func upstreamUpgraded(_ head: borrowing ResponseHead) {
        guard machine.switched(), let downstream else { return }
        telemetry.responseStarted(status: head.status)
        startTunnel(.upgraded)
        var lines: [UInt8]?
        let changed = changeReferences(of: head, adding: &lines) ?? copy head
        downstream.writeUpgradeResponse(changed, fieldLines: lines ?? [])
        downstream.flush()
        // The upgrade was requested before draining began.
        guard !isDraining else { return endTunnel(.draining) }
        setTunnelDeadline()
        checkSnapshotChange()
        guard machine.isRelaying else { return }
        downstream.resumeRequestBody()
    }

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

    func upstreamClosed() {
        guard machine.state == .tunnelHalfClosed else { return }
        machine.finish()
        finishTunnel()
    }

    /// Both sides of the tunnel have ended.
    func finishTunnel() {
        upstream?.finishTunnel()
        leaveUpstream()
        downstream?.writeEnd(trailers: nil)
        downstream?.flush()
        finish(errorType: nil)
        downstream?.exchangeCompleted()
    }

    /// A long-lived response begins.
    func startTunnel(_ kind: Tunnel.Kind) {
        // The deadline limits the time until here, and all of a response that ends by itself, such as a gRPC call.
        if callDeadline != nil, kind != .eventStream(isEndless: false) { endTimeLimit() }
        tunnel = Tunnel(
            kind, permit: permit,
            idleTimeout: route?.route.stream.idle?.wholeNanoseconds ?? snapshot.timeouts.tunnelIdle,
            lifetime: route?.route.stream.lifetime.wholeNanoseconds ?? 0,
            proofLifetime: snapshot.config.devices?.configuration.streams.wholeNanoseconds ?? .max,
            isOfToken: request.ticket == nil, maxMessage: route?.route.stream.message ?? 0, random: context.random(),
            now: context.now)
    }

    /// Data was transferred, or a deadline was handled: sets the next deadline, or ends the response.
    func setTunnelDeadline() {
        guard let tunnel else { return }
        if tunnel.hasFinishedLastFrame { endTunnel(.lifetime) } else { downstream?.setDeadline(tunnel.deadline) }
    }

    /// A long-lived response has started. The configuration may have changed since its request was received.
    func checkSnapshotChange() {
        if snapshot !== context.snapshot { configurationReplaced() }
    }

    /// A new configuration is in effect. Requests with an ordinary response complete with the old one; tunnels
    /// and event streams continue only if their route is unchanged, and not with one of the oldest configurations.
    func configurationReplaced() {
        guard tunnel != nil, let permit else { return }
        let config = snapshot.config
        let route = config.routes[permit.route]
        guard
            !context.isKept(snapshot)
                || !context.snapshot.config.containsEquivalent(route, of: config, for: permit.sessionSource)
        else { return }
        endTunnel(.routeChanged)
    }

    /// Sessions have changed: a long-lived response ends with its own at once, not with its next check.
    func sessionsChanged(now: UInt64) {
        guard let action = tunnel?.sessionsChanged() else { return }
        // An idle timeout that has passed is handled when its deadline is.
        _ = execute(action, now: now)
    }

    /// Ends a long-lived response.
    func endTunnel(_ reason: Tunnel.EndReason) {
        guard let downstream, let action = tunnel?.end(reason), action != .abort else {
            return abortResponse(reason.errorType)
        }
        if case .closeFrames(let code, let toClient, let toUpstream) = action {
            if toClient, machine.isRelaying { downstream.writeBody(WebSocketClose.frame(code, mask: nil)) }
            downstream.writeEnd(trailers: nil)
            downstream.flush()
            if toUpstream {
                upstream?.writeBody(
                    WebSocketClose.frame(code, mask: UInt32(truncatingIfNeeded: context.random())), isChunked: false)
            }
            // What was forwarded before is still sent.
            upstream?.finishTunnel()
            leaveUpstream()
            machine.finish()
        } else {
            cancelUpstream()
            machine.finish()
            downstream.writeEnd(trailers: nil)
            downstream.flush()
        }
        // A planned end is no failure.
        finish(errorType: reason == .lifetime ? nil : reason.errorType)
        downstream.exchangeCompleted()
    }
}
