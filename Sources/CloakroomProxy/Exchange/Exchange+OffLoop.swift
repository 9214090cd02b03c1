import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Paths that leave the event loop: account endpoints, and sessions that are not cached. The exchange is suspended
/// meanwhile: nothing more is read for it.
extension Exchange {
    /// Starts an account request: its body is collected first.
    func beginAccountRequest(_ endpoint: AccountEndpoint, now: UInt64) {
        // Account endpoints support no tunnels.
        guard tunnel == .none else { return respond(ProblemDocument(Problem(.notImplemented)), now: now) }
        guard summary.expectation != .unknown else {
            return respond(ProblemDocument(Problem(.expectationFailed)), now: now)
        }
        if case .length(let length) = framing, length > endpoint.bodyLimit {
            return respond(ProblemDocument(Problem(.contentTooLarge)), now: now)
        }
        accountEndpoint = endpoint
        machine.collect()
        if framing == .none {
            requestEnd()
        } else {
            downstream?.setDeadline(now &+ snapshot.timeouts.bodyIdle)
            if summary.expectation == .continue { downstream?.writeContinue() }
        }
    }

    /// The account request is complete: it is handled off the event loop.
    func dispatchAccountRequest() {
        guard let accountEndpoint else { return }
        machine.suspend()
        downstream?.setDeadline(.max)
        let request = AccountRequest(
            endpoint: accountEndpoint, name: accountEndpoint == .endSession ? lastSegment : nil,
            userAgent: value(of: .userAgent).map { String(decoding: $0, as: UTF8.self) }, ticket: ticket,
            authorization: value(of: .authorization).map { Secret(bytes: $0) },
            contentType: value(of: .contentType).map { String(decoding: $0, as: UTF8.self) },
            body: Secret(bytes: Array(bufferedBody.readableBytesView)), traceparent: trace.outgoing?.traceparentText,
            now: context.sessionTimestamp(at: startedAt), wallTime: context.timestamp(at: startedAt),
            origin: AuditContext(peer: clientAddress, requestID: "\(record.requestID)"))
        let endpoints = snapshot.config.accountEndpoints
        OffLoop.run(self, on: context.eventLoop) {
            await endpoints.respond(request)
        } resume: { exchange, response in
            exchange.accountResponded(with: response)
        }
    }

    /// Loads the session before the request can be decided.
    func loadSession(_ ticket: SessionTicket, route: Int, now: UInt64) {
        machine.suspend()
        downstream?.setDeadline(.max)
        let store = snapshot.config.sessions
        let timestamp = context.sessionTimestamp(at: now)
        OffLoop.run(self, on: context.eventLoop) { () -> Result<SessionLookup, SessionStoreError> in
            do throws(SessionStoreError) {
                return .success(try await store.load(ticket, now: timestamp))
            } catch {
                return .failure(error)
            }
        } resume: { exchange, result in
            exchange.loaded(result, route: route)
        }
    }

    private func loaded(_ result: Result<SessionLookup, SessionStoreError>, route index: Int) {
        guard machine.resume() == .proceed else { return }
        let now = context.updateTime()
        let entry = snapshot.config.routes[index]
        let decision: AuthDecision? =
            switch result {
            case .success(let lookup):
                AuthDecision.decide(entry.access, at: index, now: context.timestamp(at: now), session: lookup)
            case .failure: nil
            }
        guard let decision, decision != .loadSession else {
            // A store failure does not end the session: respond with 503, not 401.
            record.errorType = .storeUnavailable
            return respond(entry.problem(.storeUnavailable, retryAfter: 1), now: now)
        }
        execute(requestDecision(of: decision, route: index), now: now)
    }

    /// The session's tokens were issued by another source: the session is ended, and the request continues without a
    /// session.
    func endSession(_ ticket: SessionTicket, route: Int, now: UInt64) {
        machine.suspend()
        downstream?.setDeadline(.max)
        let store = snapshot.config.sessions
        let timestamp = context.sessionTimestamp(at: now)
        OffLoop.run(self, on: context.eventLoop) {
            // The request continues without a session even if the store is unreachable.
            _ = try? await store.end(ticket, reason: .sourceRemoved, now: timestamp)
        } resume: { exchange, _ in
            exchange.loaded(.success(.missing(SessionEndReason.sourceRemoved.unauthorizedReason)), route: route)
        }
    }

    private func accountResponded(with response: AccountResponse) {
        guard machine.resume() == .proceed else { return }
        let now = context.updateTime()
        var lines: [UInt8] = []
        for field in response.fields { lines += Array("\(field.name): \(field.value)\r\n".utf8) }
        switch response.content {
        case .problem(let problem):
            if problem.status >= 500 { record.errorType = Self.label(of: problem) }
            respond(ProblemDocument(problem), moreFieldLines: lines, now: now)
        case .json(let body):
            lines += Array("Content-Type: application/json\r\nCache-Control: no-store\r\n".utf8)
            respond(status: response.status, title: "OK", fieldLines: lines, body: body, now: now)
        case .none:
            lines += Array("Cache-Control: no-store\r\n".utf8)
            respond(status: response.status, title: "No Content", fieldLines: lines, body: [], now: now)
        }
    }

    private static func label(of problem: Problem) -> ExchangeErrorType {
        switch problem.code {
        case .unreachable: problem.status == 504 ? .upstreamTimeout : .upstreamUnreachable
        case .invalidResponse: .upstreamInvalidResponse
        case .overloaded: .overloaded
        case .storeUnavailable: .storeUnavailable
        default: .internalError
        }
    }

    /// Address of the client: resolved from the forwarding fields if the peer is trusted, else the peer's own.
    private var clientAddress: String {
        guard peer.isTrusted else { return peer.address }
        return ClientAddress.resolve(head, peer: peer.address, trusted: snapshot.config.configuration.trustedProxies)
    }

    /// The path segment after the last slash.
    private var lastSegment: String {
        var path = normalizedPath
        if !target.isPathRewritten {
            let start = head.bytes.readerIndex + head.target.start + target.path.start
            path = head.bytes.getBytes(at: start, length: target.path.count) ?? []
        }
        return String(decoding: path.split(separator: UInt8(ascii: "/")).last ?? [], as: UTF8.self)
    }

    /// Value of a field that occurs once; `nil` if it is absent or repeated.
    private func value(of name: KnownField) -> [UInt8]? {
        var value: [UInt8]?
        for field in head.fields where field.name == name {
            guard value == nil else { return nil }
            let range = field.valueRange
            value = head.bytes.getBytes(at: head.bytes.readerIndex + range.start, length: range.count)
        }
        return value
    }
}

/// Token refresh: before a request is forwarded whose session's tokens have expired, and after the upstream rejected a
/// token.
extension Exchange {
    /// Maximum size in bytes of a body that is kept for sending the request again with another token.
    private static let replayLimit = 16_384

    /// Maximum number of times that a request is sent again.
    private static let mostReplays = 3

    /// Whether the request body is known to be small.
    var isBodySmall: Bool {
        if case .length(let length) = framing { length <= Self.replayLimit } else { false }
    }

    /// Suspends the request until the session's tokens have been refreshed.
    func refresh(_ session: Session, ticket: SessionTicket, route: Int, cause: RefreshTrigger) {
        if cause == .expired { machine.suspend() }
        downstream?.setDeadline(.max)
        let refresher = snapshot.config.refresher
        let traceparent = trace.outgoing?.traceparentText
        OffLoop.run(self, on: context.eventLoop) {
            await refresher.refresh(session, ticket: ticket, cause: cause, traceparent: traceparent)
        } resume: { exchange, outcome in
            exchange.refreshCompleted(outcome, route: route, isReplay: cause == .rejected)
        }
    }

    private func refreshCompleted(_ outcome: RefreshOutcome, route index: Int, isReplay: Bool) {
        guard machine.resume() == .proceed else { return }
        refreshCompleted(outcome, route: index, isReplay: isReplay, now: context.updateTime())
    }

    private func refreshCompleted(_ outcome: RefreshOutcome, route index: Int, isReplay: Bool, now: UInt64) {
        let entry = snapshot.config.routes[index]
        switch outcome {
        case .active(let session):
            guard let permit = AuthDecision.permit(entry.access, at: index, refreshed: session) else {
                return refreshCompleted(.ended(.revoked), route: index, isReplay: isReplay, now: now)
            }
            if isReplay { replay(permit, now: now) } else { forward(permit, now: now) }
        case .ended(let reason):
            // Without a session the route may still be public.
            if case .forward(let permit) = AuthDecision.decide(
                entry.access, at: index, now: context.timestamp(at: now), session: .missing(reason))
            {
                return isReplay ? replay(permit, now: now) : forward(permit, now: now)
            }
            record.decision = .unauthenticated
            // The ticket is permanently invalid, which was detected only now; no other response clears the cookie.
            let lines = reason == .refreshRejected ? snapshot.config.cookieClearingLine : []
            respond(entry.unauthorized[reason], moreFieldLines: lines, now: now)
        case .unavailable(let status, let retryAfter):
            record.errorType = status == 504 ? .upstreamTimeout : .upstreamUnreachable
            respond(entry.problem(.unreachable, status: status, retryAfter: retryAfter), now: now)
        case .storeUnavailable(let retryAfter):
            record.errorType = .storeUnavailable
            respond(entry.problem(.storeUnavailable, retryAfter: retryAfter), now: now)
        }
    }

    /// The upstream rejected the session's token. The tokens are refreshed and the request is sent again if possible,
    /// so the client does not see the 401. At most once, unless the token had expired meanwhile.
    /// - Returns: Whether that is in progress. Otherwise the upstream's response is forwarded to the client.
    func refreshAndReplay() -> Bool {
        guard let permit, let session = permit.bearerSession, let ticket else { return false }
        tokenRejections += 1
        // A token that expired in transit explains the rejection. With token lifetimes of seconds and a slow upstream
        // this may happen more than once.
        let hasEnded = session.hasAgedAccessToken(at: context.timestamp(at: context.now))
        guard tokenRejections == 1 || (tokenRejections <= Self.mostReplays && hasEnded),
            snapshot.config.refresher.shouldRefreshAfterRejection(session)
        else {
            return false
        }
        guard framing == .none || buffersForReplay, machine.tokenRejected() else {
            // This request cannot be sent again, but the refresh benefits the next one.
            let refresher = snapshot.config.refresher
            OffLoop.run(self, on: context.eventLoop) {
                _ = await refresher.refresh(session, ticket: ticket, cause: .rejected, traceparent: nil)
            } resume: { _, _ in
            }
            return false
        }
        cancelUpstream()
        endRejectedAttempt()
        refresh(session, ticket: ticket, route: permit.route, cause: .rejected)
        return true
    }

    private func replay(_ permit: UpstreamPermit, now: UInt64) {
        self.permit = permit
        record.retries += 1
        pool?.upstream.replays.increment()
        machine.replay()
        // A new connection: a reused one may be closed already, and a replayed request is not retried.
        lease(isFresh: true, now: now)
    }
}
