import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Forwards requests to the upstream, and its responses to the client.
extension Exchange {
    /// Forwards the request to the upstream.
    func forward(_ permit: UpstreamPermit, now: UInt64) {
        if self.route != nil { return forwardAgain(permit, now: now) }
        if peer.decidesFor != nil { return approve(permit, now: now) }
        let route = snapshot.config.routes[permit.route]
        if route.upstream < 0, let redirect = route.route.redirect {
            // Caches store permanent redirects by default (RFC 9110 §15.4.2), but here a session may be required.
            let isStored = [301, 308].contains(redirect.status) && !route.access.usesSession
            let location = redirect.location(path: request.normalPath, query: request.queryWithMark)
            return self.redirect(redirect.status, to: location, isStored: isStored, now: now)
        }
        if let problem = prepareForwarding(to: route) {
            if problem == .badRequest { telemetry.failed(.invalidRequest) }
            return respond(route.problem(problem), now: now)
        }
        self.permit = permit
        self.route = route
        permittedAt = now
        telemetry.authorized(permit, for: route.route)
        if route.deadline != 0 { limitTime(to: route.deadline) }
        guard !request.exceeds(route.bodyLimit) else {
            telemetry.failed(.bodyTooLarge)
            return respond(route.problem(.contentTooLarge), now: now)
        }
        if let problem = countInFlight(permit, route) { return respond(problem, now: now) }
        if route.upstream < 0 { return serveFile(route, now: now) }
        if route.route.grpc, !beginCall(now: now) { return }
        pool = snapshot.pools[route.upstream].pool(for: request.upgrade)
        if route.route.grpc { replay.keepIfSmall(upTo: snapshot.requestBuffer) }
        if permit.hasBearer { replay.keep(request.framing, upTo: snapshot.requestBuffer) }
        let hasBody = request.framing != .none
        if hasBody {
            openUploadCredit()
            if gathersBody { return beginGathering() }
        }
        machine.forward(hasBody: hasBody)
        askForBody()
        // Unless the client has disconnected.
        if machine.state != .idle { lease(isFresh: false, now: now) }
    }

    func lease(isFresh: Bool, now: UInt64) {
        guard let pool, let route else { return }
        if let callDeadline, callDeadline <= now { return callExpired(now: now) }
        let options = UpstreamPool.LeaseOptions(
            isFresh: isFresh, isTimed: isTimed, isFirst: attempts.sends == 0, tried: attempts.failed,
            maxTargets: route.route.retry ? pool.maxTargets(after: attempts.targets) : 1,
            deadline: callDeadline ?? .max)
        switch pool.lease(self, options) {
        case .leased(let lease): upstreamConnected(lease)
        case .waiting(let waiter):
            // The pool limits the time, also by the deadline of the request.
            self.waiter = waiter
            telemetry.queueStarted(at: now)
            downstream?.setDeadline(.max)
        case .rejected: upstreamFailed(UpstreamFailure(.poolExhausted), isStale: false)
        }
    }
}

/// What the board of the upstream learns from the exchange.
extension Exchange {
    /// Whether the time until the response head measures the target: not of a request whose body is still being sent.
    private var isTimed: Bool { route?.route.timed == true && machine.isRequestComplete }

    /// For how long only the target was waited for, in nanoseconds; `nil` if that does not measure it.
    var waitingTime: UInt64? { isTimed ? context.now &- telemetry.awaitedSince : nil }

    /// Leaves the queue for a connection.
    func cancelLease() {
        if let waiter { pool?.cancel(waiter) }
        waitEnded()
    }

    private func waitEnded() {
        guard waiter != nil else { return }
        waiter = nil
        let time = telemetry.queueEnded(at: context.now)
        pool?.upstream.metrics.queueTime.record(nanoseconds: time)
    }

    /// The target did not respond, or not with a valid response.
    func reportFailure() {
        guard let upstream else { return }
        pool?.requestFailed(upstream, sentAt: telemetry.sentAt, after: waitingTime)
    }

    /// The client left before the response.
    func reportCancellation() {
        guard let upstream, isTimed else { return }
        upstream.target.state.cancelled(after: context.now &- telemetry.awaitedSince, now: context.now)
    }
}

extension Exchange: UpstreamDelegate {
    func upstreamConnected(_ lease: any UpstreamLease) {
        waitEnded()
        if let decision = decisionInsteadOfSending() {
            pool?.releaseUnused(lease)
            return execute(decision, now: context.now)
        }
        guard machine.leased() == .send, let permit else {
            pool?.releaseUnused(lease)
            return
        }
        if drainingStream != nil { countDrainingAttempt() }
        upstream = lease
        attempts.sent()
        let config = snapshot.config
        let route = config.routes[permit.route]
        let entry = config.upstreams[route.upstream]
        telemetry.startAttempt(
            entry, target: lease.target, path: request.loggablePath, isHTTP2: lease.isHTTP2,
            resends: attempts.sends - 1, config: config, now: context.now)
        let credentials = permit.credentials(entry.claimHeaders) { assertionMoment }
        let upstreamRequest = UpstreamRequest(
            isHeadRequest: request.method == .head, upgrade: request.upgrade, responsePolicy: config.responsePolicy,
            injectedSecrets: InjectedSecrets(apiToken: entry.apiToken, authorization: credentials.authorization),
            responseFields: route.responseFields, isClientHTTP2: request.version == .http2,
            hasSession: permit.hasSession)
        // Within the closure it would count a reference of each of its parts.
        let encoder = UpstreamRequestEncoder(
            upstream: entry, targetIndex: lease.targetIndex, credentials: credentials, permit: permit, config: config,
            context: context)
        lease.begin(upstreamRequest, for: self) { buffer in
            encoder.write(
                &request, of: route, from: peer, requestID: telemetry.record.requestID,
                traceContext: telemetry.traceContext, into: &buffer)
        }
        if machine.state == .awaitingResponse(.complete) {
            // Complete: the request has no body, or all of it is buffered.
            if request.framing != .none { writeBufferedBody(to: lease, isComplete: true) }
            lease.finishRequest()
            // A failed write may have ended the exchange or begun a retry.
            if machine.state == .awaitingResponse(.complete), upstream === lease {
                // The time until now was spent by the gateway; from here on it counts for the upstream.
                if request.framing == .none { telemetry.requestWritten(now: context.time.now()) }
                expectResponse()
            }
        } else {
            downstream?.setDeadline(uploadCredit.start(now: telemetry.sentAt))
            writeBufferedBody(to: lease, isComplete: false)
            downstream?.resumeRequestBody()
        }
    }

    func upstreamInformational(_ head: borrowing ResponseHead) {
        // Interim responses are optional: they are dropped for a client that does not read fast enough, so they do not
        // accumulate. The upstream was not asked for 100 (Continue).
        // Nor do routes that rewrite need them: their references are only hints of those of the response.
        guard case .awaitingResponse = machine.state, request.version != .http1_0, head.status != 100, let downstream,
            downstream.isWritable, route?.rewrite == nil
        else {
            return
        }
        attempts.hasSentInterim = true
        downstream.writeInformational(head)
        downstream.flush()
    }

    func upstreamHead(
        _ head: borrowing ResponseHead, summary: ResponseHeaderPolicy.ResponseHeaderSummary, framing: BodyFraming
    ) {
        if let upstream {
            reportHead(head, framing: framing, of: upstream)
        }
        if head.status == 401, !StepUpChallenge.isPresent(in: head), refreshAndReplay() { return }
        if retryStatus(head) { return }
        guard machine.responseStarted(), let downstream else { return }
        if replay.isKept { context.returnRequestBuffer(replay.discard()) }
        telemetry.responseStarted(status: head.status)
        let hasSession = permit?.hasSession == true
        var additions = ResponseAdditions(
            date: summary.hasDate ? nil : context.date, isPrivate: hasSession && !summary.addressesSharedCaches,
            variesByCookie: route?.varies(summary) == true,
            fieldLines: snapshot.config.cors.responseFieldLines(request.originMatch))
        if let fields = route?.responseFields {
            additions.append(
                fields.lines(without: summary.presentFields, status: head.status, isSecure: isClientSecure) {
                    write($0, into: &$1)
                })
        }
        if !request.rateLines.isEmpty { additions.append(request.rateLines) }
        if request.credential != nil { additions.append(RequestDecider.varyByAuthorization) }
        if route?.rewrite != nil, let changed = changeReferences(of: head, adding: &additions.fieldLines) {
            downstream.writeHead(changed, framing: framing, additions: additions)
        } else {
            downstream.writeHead(head, framing: framing, additions: additions)
        }
        if summary.isEventStream || isForCalls {
            // Browsers read endless event streams with GET and status 200 (HTML §9.2.3). Other responses are assumed to
            // end by themselves.
            let isEndless =
                summary.isEventStream && request.method == .get && head.status == 200
                && (framing == .chunked || framing == .untilClose)
            startTunnel(.eventStream(isEndless: isEndless))
            if isEndless, isDraining { return endTunnel(.draining) }
            setTunnelDeadline()
            if framing != .none { checkSnapshotChange() }
        } else {
            downstream.setDeadline(framing == .none ? .max : responseDeadline())
        }
    }

    func upstreamBody(_ bytes: ByteBuffer) {
        guard machine.isRelaying, let downstream else { return }
        telemetry.sentBody(bytes.readableBytes)
        if let allowed = tunnel?.forwardedToClient(bytes) {
            downstream.writeBody(bytes.getSlice(at: bytes.readerIndex, length: allowed) ?? ByteBuffer())
            return endTunnel(.messageTooBig)
        }
        downstream.writeBody(bytes)
        if !downstream.isWritable { upstream?.setPaused(true) }
    }

    func upstreamReadComplete() {
        guard machine.isRelaying, let downstream else { return }
        downstream.flush()
        let isWritable = downstream.isWritable
        if tunnel != nil {
            tunnel?.activity(now: context.now)
            setTunnelDeadline()
        } else if isWritable {
            downstream.setDeadline(responseDeadline())
        } else {
            clientFellBehind()
        }
        upstream?.setPaused(!isWritable)
    }

    func upstreamEnd(trailers: TrailerSection?) {
        if let trailers, let upstream { reportCall(trailers, of: upstream) }
        leaveUpstream()
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
        if !removed.isEmpty { pool?.upstream.metrics.count(removed) }
        return kept
    }

    /// Credentials that were sent to the upstream and must not reach the client.
    private var injectedSecrets: InjectedSecrets {
        InjectedSecrets(apiToken: pool?.upstream.apiToken, authorization: permit?.authorization)
    }

    func upstreamWritable() {
        if machine.state == .awaitingResponse(.open), !uploadCredit.isRunning {
            downstream?.setDeadline(uploadCredit.start(now: context.now))
        }
        downstream?.resumeRequestBody()
    }

    /// The client connection became writable or unwritable.
    func downstreamWritabilityChanged(isWritable: Bool) {
        guard machine.isRelaying else { return }
        // That it is behind is determined after a flush.
        if isWritable { clientCaughtUp() }
        upstream?.setPaused(!isWritable)
        if transfer != nil { continueTransfer() }
    }

    func upstreamFailed(_ failure: UpstreamFailure, isStale: Bool) {
        let now = context.now
        // A target applies the deadline of a gRPC call too, and may be first.
        if failure.kind == .cancelled, timeLeft(now: now) == 0 { return callExpired(now: now) }
        var decision = RetryDecision.pass(.notConfigured, reason: nil)
        if isStale {
            // No failure of the target: it closed an idle connection.
            decision = retryDecision(after: .stale, now: now)
        } else {
            // A response is judged by its head, also if its body is invalid.
            if failure.isBeforeResponse, machine.awaitsResponse {
                reportFailure()
                if let upstream { attempts.failed.insert(upstream.slot) }
            }
            if let failed = failure.attemptFailure {
                decision = retryDecision(after: failed, isTargetWell: failure.kind == .unprocessed, now: now)
            }
        }
        leaveUpstream()
        upstreamFailed(failure, decision)
    }

    /// - Parameter decision: Whether the request is sent again.
    func upstreamFailed(_ failure: UpstreamFailure, _ decision: RetryDecision) {
        let now = context.now
        telemetry.endAttempt(failure, now: now)
        switch machine.upstreamFailed(mayRetry: decision.isRetry) {
        case .retry:
            sendAgain(decision, now: now)
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

    func upstreamHasNoRoom() {
        waitEnded()
        lease(isFresh: false, now: context.now)
    }

    func upstreamConnectRetried() { telemetry.retried(.connect) }

    /// Metrics and the access log report it as a failed upstream request.
    func upstreamConnectFailed(_ failure: UpstreamFailure, target: Int?, duration: UInt64) {
        waitEnded()
        if let target, let route {
            let upstream = snapshot.config.upstreams[route.upstream]
            telemetry.connectFailed(target: upstream.firstTarget + target, duration: duration)
        }
        upstreamFailed(failure, isStale: false)
    }
}

/// Limits of the upstream request, and ending it.
extension Exchange {
    /// The site of the request, and the time, for the assertion.
    var assertionMoment: (site: Int, now: WallTime) {
        (snapshot.config.routeTable.groups.site(of: request.routeGroup), context.wallTime(at: context.now))
    }

    /// Sends the body bytes passed on so far.
    func flushUpstream() {
        switch machine.state {
        case .gathering: continueGathering()
        case .awaitingResponse(.open), .streamingResponse(.open):
            // The end waits until the upstream takes more, as that of a body with END_STREAM does.
            if isBodyForwarded, acceptsBody { return requestEnd() }
            upstream?.flush()
            if machine.awaitsResponse { pauseUploadIfNeeded() }
        case .tunneling(.open), .tunnelHalfClosed:
            upstream?.flush()
        default: break
        }
    }

    /// Whether all of a body of a declared length was forwarded. As in ``continueGathering()``, a client of HTTP/2 may send
    /// END_STREAM in a frame of its own, much later.
    private var isBodyForwarded: Bool {
        guard request.version == .http2, case .length(let length) = request.framing else { return false }
        return telemetry.receivedBodyBytes == length
    }

    /// Cancels the upstream request, whether or not a response was received.
    func cancelUpstream() {
        upstream?.cancel()
        leaveUpstream()
    }

    /// The connection is no longer part of the exchange.
    func leaveUpstream() {
        if let stream = upstream?.drainingStream { drainingStream = stream }
        upstream = nil
    }

    /// The request body exceeds the route's limit.
    func bodyTooLarge() {
        cancelUpstream()
        telemetry.failed(.bodyTooLarge)
        switch machine.state {
        case .gathering, .awaitingResponse:
            guard let route else { fallthrough }
            respond(route.problem(.contentTooLarge), now: context.now)
        default: abortResponse(.bodyTooLarge)
        }
    }

    /// Maximum pause within a body, in nanoseconds.
    var bodyIdle: UInt64 { route?.bodyIdleTimeout ?? snapshot.timeouts.bodyIdle }

    /// Maximum size of a request body, in bytes.
    var bodyLimit: Int { route?.bodyLimit ?? 0 }
}
