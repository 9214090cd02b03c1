import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Forwards requests to the upstream, and its responses to the client.
extension Exchange {
    /// Forwards the request to the upstream.
    func forward(_ permit: UpstreamPermit, now: UInt64) {
        let route = snapshot.config.routes[permit.route]
        if let problem = prepareForwarding(to: route) {
            if problem == .badRequest { telemetry.failed(.invalidRequest) }
            return respond(route.problem(problem), now: now)
        }
        self.permit = permit
        self.route = route
        telemetry.authorized(permit, for: route.route)
        guard !request.exceeds(route.bodyLimit) else {
            telemetry.failed(.bodyTooLarge)
            return respond(route.problem(.contentTooLarge), now: now)
        }
        pool = snapshot.pools[route.route.upstream]
        if permit.bearerSession != nil { replay.keep(request.framing) }
        let mustWait = request.summary.expectation != .continue && downstream?.hasPlausibleBody == false
        machine.forward(hasBody: request.framing != .none, mustWait: mustWait)
        guard mustWait else { return lease(isFresh: false, now: now) }
        downstream?.setDeadline(now &+ min(bodyIdle, Self.gatheringTime))
    }

    /// Maximum time that a request waits for its body after it was authorized, in nanoseconds. Then it is forwarded
    /// without it.
    private static let gatheringTime: UInt64 = 1_000_000_000

    /// Enough of the request body has arrived to forward the request.
    func bodyArrived() {
        if machine.bodyArrived() { lease(isFresh: false, now: context.now) }
    }

    func lease(isFresh: Bool, now: UInt64) {
        guard let pool else { return }
        switch pool.lease(self, isFresh: isFresh) {
        case .connection(let connection): upstreamConnected(connection)
        case .waiting: downstream?.setDeadline(now &+ pool.pendingTimeout)
        case .rejected: upstreamFailed(UpstreamFailure(.poolExhausted), isStale: false)
        }
    }
}

extension Exchange: UpstreamDelegate {
    func upstreamConnected(_ connection: UpstreamConnection) {
        guard machine.leased() == .send, let permit else {
            pool?.release(connection)
            return
        }
        upstream = connection
        let config = snapshot.config
        let entry = config.upstreams[config.routes[permit.route].route.upstream]
        telemetry.startAttempt(entry, targetIndex: connection.targetIndex, config: config, now: context.now)
        let upstreamRequest = UpstreamRequest(
            isHeadRequest: request.method == .head, upgrade: request.upgrade,
            responsePolicy: config.responsePolicy, injectedSecrets: injectedSecrets)
        connection.begin(upstreamRequest, for: self) { buffer in
            UpstreamRequestEncoder(
                upstream: entry, targetIndex: connection.targetIndex, permit: permit, cookie: config.cookie,
                context: context
            ).write(
                &request, from: peer, requestID: telemetry.record.requestID, traceContext: telemetry.traceContext,
                into: &buffer)
        }
        if machine.state == .awaitingResponse(.complete) {
            // Complete: the request has no body, or is sent again with the buffered one.
            if replay.body.readableBytes > 0 { connection.writeBody(replay.body) }
            connection.finishRequest()
            // A failed write may have ended the exchange or begun a retry.
            if machine.state == .awaitingResponse(.complete), upstream == connection {
                // The time until now was spent by the gateway; from here on it counts for the upstream.
                telemetry.requestWritten(now: NIODeadline.now().uptimeNanoseconds)
                expectResponse()
            }
        } else {
            downstream?.setDeadline(telemetry.sentAt &+ bodyIdle)
            // A client that waits for 100 (Continue) sends no body until the upstream has received the head.
            if request.summary.expectation == .continue { connection.flush() }
            downstream?.resumeRequestBody()
        }
    }

    func upstreamInformational(_ head: borrowing ResponseHead) {
        // Interim responses are optional: they are dropped for a client that does not read fast enough, so they do not
        // accumulate.
        guard case .awaitingResponse = machine.state, request.version != .http1_0, let downstream, downstream.isWritable
        else {
            return
        }
        downstream.writeInformational(head)
        downstream.flush()
    }

    func upstreamHead(
        _ head: borrowing ResponseHead, summary: ResponseHeaderPolicy.ResponseHeaderSummary, framing: BodyFraming
    ) {
        if head.status == 401, refreshAndReplay() { return }
        guard machine.responseStarted(), let downstream else { return }
        if replay.isKept { replay.discard() }
        telemetry.responseStarted(status: head.status)
        let hasSession = permit?.hasSession == true
        downstream.writeHead(
            head, framing: framing,
            additions: ResponseAdditions(
                date: summary.hasDate ? nil : context.date, isPrivate: hasSession && !summary.hasCacheControl,
                variesByCookie: route?.varies(summary) == true,
                crossOriginLines: snapshot.config.cors.responseFieldLines(request.originMatch)))
        if summary.isEventStream {
            // Browsers read endless event streams with GET. A response to another method is assumed to end by itself.
            let isEndless = request.method == .get && (framing == .chunked || framing == .untilClose)
            startTunnel(.eventStream(isEndless: isEndless))
            if isEndless, isDraining { return endTunnel(.draining) }
            setTunnelDeadline()
            if framing != .none { checkSnapshotChange() }
        } else {
            downstream.setDeadline(framing == .none ? .max : context.now &+ bodyIdle)
        }
    }

    func upstreamBody(_ bytes: ByteBuffer) {
        guard machine.isRelaying, let downstream else { return }
        telemetry.sentBody(bytes.readableBytes)
        tunnel?.forwardedToClient(bytes)
        downstream.writeBody(bytes)
        if !downstream.isWritable { upstream?.setPaused(true) }
    }

    func upstreamReadComplete() {
        guard machine.isRelaying, let downstream else { return }
        downstream.flush()
        if tunnel == nil {
            downstream.setDeadline(context.now &+ bodyIdle)
        } else {
            tunnel?.activity(now: context.now)
            setTunnelDeadline()
        }
        upstream?.setPaused(!downstream.isWritable)
    }

    func upstreamEnd(trailers: TrailerSection?) {
        upstream = nil
        guard machine.responseEnded(), let downstream else { return }
        // Sent only to clients that accept trailers (RFC 9110 §6.5.1); HTTP/2 always supports them.
        let areWanted = request.version == .http2 || request.summary.acceptsTrailers
        downstream.writeEnd(trailers: areWanted ? trailers.map { filteredTrailers($0) } : nil)
        downstream.flush()
        finish(errorType: nil)
        downstream.exchangeCompleted()
    }

    private func filteredTrailers(_ section: TrailerSection) -> ByteBuffer {
        var removed = RemovedResponseFields()
        let kept = snapshot.config.trailerPolicy.filter(section, without: injectedSecrets, removed: &removed)
        if !removed.isEmpty { pool?.upstream.count(removed) }
        return kept
    }

    /// Credentials that were sent to the upstream and must not reach the client.
    private var injectedSecrets: InjectedSecrets {
        InjectedSecrets(apiToken: pool?.upstream.apiToken, authorization: permit?.authorization)
    }

    func upstreamWritable() {
        downstream?.resumeRequestBody()
    }

    /// The client connection became writable or unwritable.
    func downstreamWritabilityChanged(isWritable: Bool) {
        if machine.isRelaying { upstream?.setPaused(!isWritable) }
    }

    func upstreamFailed(_ failure: UpstreamFailure, isStale: Bool) {
        upstream = nil
        let now = context.now
        let mayRetry = isStale && !replay.isSentAgain && request.isRepeatable
        telemetry.endAttempt(failure, now: now)
        switch machine.upstreamFailed(mayRetry: mayRetry) {
        case .retry:
            telemetry.retried()
            replay.sentAgain()
            pool?.upstream.retries.increment()
            lease(isFresh: true, now: now)
        case .respond:
            telemetry.failed(failure.label)
            guard let permit else { return }
            respond(failure.problem(for: snapshot.config.routes[permit.route]), now: now)
        case .cut:
            // The response became invalid before any of it was sent, so it can be replaced by an error response.
            guard failure.kind == .invalidResponse, let permit, downstream?.discardUnsentResponse() == true else {
                return abortResponse(failure.label)
            }
            telemetry.failed(failure.label)
            telemetry.responseDiscarded()
            respond(failure.problem(for: snapshot.config.routes[permit.route]), now: now)
        case .nothing:
            break
        }
    }

    /// Metrics and the access log report it as a failed upstream request.
    func upstreamConnectFailed(_ failure: UpstreamFailure, target: Int, duration: UInt64) {
        telemetry.connectFailed(target: target, duration: duration)
        upstreamFailed(failure, isStale: false)
    }
}

/// Limits of the upstream request, and ending it.
extension Exchange {
    /// Sends the body bytes passed on so far.
    func flushUpstream() {
        switch machine.state {
        case .awaitingResponse(.open), .streamingResponse(.open), .tunneling(.open), .tunnelHalfClosed:
            upstream?.flush()
        default: break
        }
    }

    /// Cancels the upstream request, whether or not a response was received.
    func cancelUpstream() {
        upstream?.cancel()
        upstream = nil
    }

    /// The request body exceeds the route's limit.
    func bodyTooLarge() {
        cancelUpstream()
        telemetry.failed(.bodyTooLarge)
        guard case .awaitingResponse = machine.state, let permit else { return abortResponse(.bodyTooLarge) }
        respond(snapshot.config.routes[permit.route].problem(.contentTooLarge), now: context.now)
    }

    /// Starts the response timeout. Called when the request has been sent.
    func expectResponse() {
        guard let route else { return }
        downstream?.setDeadline(telemetry.sentAt &+ route.responseHeadTimeout)
    }

    /// Maximum pause within a body, in nanoseconds.
    var bodyIdle: UInt64 { route?.bodyIdleTimeout ?? snapshot.timeouts.bodyIdle }

    /// Maximum size of a request body, in bytes.
    var bodyLimit: Int { route?.bodyLimit ?? 0 }
}

/// Long-lived responses: tunnels and event streams.
extension Exchange {
    func upstreamUpgraded(_ head: borrowing ResponseHead) {
        guard machine.switched(), let downstream else { return }
        telemetry.responseStarted(status: head.status)
        startTunnel(.upgraded)
        downstream.writeUpgradeResponse(head)
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
        upstream = nil
        downstream?.writeEnd(trailers: nil)
        downstream?.flush()
        finish(errorType: nil)
        downstream?.exchangeCompleted()
    }

    private func startTunnel(_ kind: Tunnel.Kind) {
        tunnel = Tunnel(kind, permit: permit, idleTimeout: snapshot.timeouts.tunnelIdle, now: context.now)
    }

    func setTunnelDeadline() {
        if let tunnel { downstream?.setDeadline(tunnel.deadline) }
    }

    /// A long-lived response has started. The configuration may have changed since its request was received.
    private func checkSnapshotChange() {
        if snapshot !== context.snapshot { configurationReplaced() }
    }

    /// A new configuration is in effect. Requests with an ordinary response complete with the old one; tunnels
    /// and event streams continue only if their route is unchanged.
    func configurationReplaced() {
        guard tunnel != nil, let permit else { return }
        let config = snapshot.config
        guard !context.snapshot.config.containsEquivalent(config.routes[permit.route].route, of: config) else { return }
        endTunnel(.routeChanged)
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
                upstream?.writeBody(WebSocketClose.frame(code, mask: UInt32(truncatingIfNeeded: context.random())))
                upstream?.flush()
            }
            cancelUpstream()
            machine.finish()
        } else {
            cancelUpstream()
            machine.finish()
            downstream.writeEnd(trailers: nil)
            downstream.flush()
        }
        finish(errorType: reason.errorType)
        downstream.exchangeCompleted()
    }
}
