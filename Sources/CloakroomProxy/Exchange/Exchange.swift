import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore
import Tracing

/// Drives one request/response exchange: evaluates the decision types, performs the I/O.
///
/// It runs on the client connection's event loop, and so does the upstream connection. A client connection uses one
/// exchange object for all its requests in sequence.
///
/// Folder `Exchange/`: one request and its response: what is decided (``RequestDecider``), in which state it is
/// (``ExchangeStateMachine``), and the I/O that follows.
final class Exchange: Equatable {
    let context: LoopContext
    private var reference: SnapshotReference
    let peer: Peer
    /// The number of the request on this connection: what was begun for an earlier one must not change a later one.
    private(set) var number: UInt64 = 0
    var request = InboundRequest()
    /// `nil` after the client has disconnected.
    private(set) var downstream: (any ResponseWriter)?
    var machine = ExchangeStateMachine()
    var telemetry = ExchangeTelemetry()
    var permit: UpstreamPermit?
    /// The time of the event in which the permit was given.
    var permittedAt: UInt64 = 0
    /// Whether its session was loaded again, because it had waited for a connection.
    var hasReloaded = false
    /// The route that the permit is for. Set when the request is prepared for it.
    var route: RouteRuntime?
    var replay = BodyReplay()
    /// Credit of the client for sending the request body.
    var uploadCredit = RateCredit(.init(time: 0, perByte: 0))
    /// Body bytes for which ``uploadCredit`` has been extended before the request was forwarded.
    var creditedBytes = 0
    /// Credit of the client for reading the response; `nil` until it is behind for the first time.
    var drainCredit: DrainCredit?
    /// The progress of a slow client when it was measured last, and since when it is the same.
    var pace = (sentAt: UInt64(0), moved: 0, since: UInt64(0))
    /// The limits that the request is counted for.
    var countedCaps: CountedCaps = []
    /// The client behind a trusted proxy that the request is counted for.
    var forwardedClient: ClientAddressKey?
    var ticketKeys = TicketKeyCache()
    var upstream: (any UpstreamLease)?
    /// Whether work off the event loop is in progress that the request waits for.
    var awaitsWork = false
    /// Called when that work is done: its client has left.
    var afterWork: (() -> Void)?
    /// The stream of the last attempt, if it is still occupied although its response is not needed.
    var drainingStream: UpstreamStream?
    var pool: UpstreamPool?
    /// Its place among those that wait for a connection.
    var waiter: WaiterID?
    var attempts = RequestAttempts()
    /// Set while the response is long-lived.
    var tunnel: Tunnel?
    /// The file that is the response.
    var transfer: FileTransfer?
    /// Time at which the response has to be complete, whatever the other timeouts; `nil` for none.
    var callDeadline: UInt64?
    /// Whether ``callDeadline`` is the one that the client asked for.
    var isDeadlineOfClient = false
    /// Whether this connection alone is draining.
    private var isConnectionDraining = false

    init(context: LoopContext, peer: Peer, downstream: any ResponseWriter) {
        self.context = context
        reference = SnapshotReference(context.snapshot)
        self.peer = peer
        self.downstream = downstream
    }

    static func == (left: Exchange, right: Exchange) -> Bool { left === right }

    /// Snapshot used from the beginning to the end of the exchange.
    var snapshot: LoopSnapshot { reference.snapshot }

    /// Whether an exchange is in progress.
    var isActive: Bool { machine.state != .idle }

    /// Whether the gateway or the connection is draining. If so, responses for which
    /// ``Tunnel/endsWhenDraining`` holds end as soon as they start.
    var isDraining: Bool { isConnectionDraining || context.isDraining }

    /// Draining begins: tunnels and endless event streams end now, so clients reconnect elsewhere in time.
    func drain() {
        isConnectionDraining = true
        if tunnel?.endsWhenDraining == true { endTunnel(.draining) }
    }

    /// Whether the downstream handler may pass on more of the body now.
    var acceptsBody: Bool {
        machine.acceptsBody && (upstream?.isWritable ?? true)
    }

    /// Whether body bytes that were passed on are buffered here.
    var holdsBody: Bool { machine.holdsBody }

    // MARK: - The request

    /// The request head. The downstream handler fills it in and then calls ``begin(_:upgrade:now:)``.
    var head: RequestHead {
        _read { yield request.head }
        _modify { yield &request.head }
    }

    /// HTTP version of the client connection. Set by the downstream handler.
    var protocolVersion: HTTPProtocolVersion {
        get { request.version }
        set { request.version = newValue }
    }

    /// Releases the head of a request that does not begin an exchange.
    func resetHead() { request.resetHead() }

    /// Begins an exchange with a complete request head.
    /// - Parameter upgrade: The requested upgrade, if the client's protocol has its own way to request one.
    func begin(_ framing: BodyFraming, upgrade: RequestedUpgrade = .none, now: UInt64) {
        request.begin(framing, upgrade: upgrade)
        if let proxy = peer.decidesFor {
            request.replaceByOriginal(of: proxy, maxTarget: context.snapshot.config.configuration.limits.target)
        }
        startTelemetry(now: now)
        var decision = decider.decide(
            &request, session: { lookUp($0, now: now, slides: $1) },
            limit: { limitRate(&$0, on: $1, now: now) }, now: context.wallTime(at: now))
        if request.checked != nil { deviceChecked(now: now) }
        let config = snapshot.config
        if request.awaitsLimit { limitSession(&decision, config, now: now) }
        if telemetry.routed(
            to: request.routeIndex, context: config.telemetry.childContext(of: request.traceContext))
        {
            telemetry.startServerSpan(request, from: peer, config: config, routes: snapshot.telemetry.routes)
        }
        execute(decision, now: now)
    }

    func startTelemetry(now: UInt64) {
        number += 1
        reference.retain(context.snapshot)
        telemetry.start(
            request.method, version: request.version, from: peer,
            id: ID128(high: context.random(), low: context.random()),
            wallNanoseconds: context.wallNanoseconds(at: now), now: now)
        snapshot.telemetry.requestStarted(scheme: peer.scheme, method: request.method)
    }

    /// Reports the exchange to telemetry, exactly once, however it ended. Writing a response may detect that the client
    /// disconnected, which also ends the exchange; the second call has no effect.
    func finish(errorType: ExchangeErrorType?) {
        guard let snapshot = reference.end() else { return }
        // Read from the clock, not from the event's time: the gateway's own processing since then is part of the
        // duration.
        telemetry.finish(
            errorType: errorType, now: context.time.now(), eventTime: context.now)
        telemetry.report(
            to: snapshot.telemetry, of: &request,
            listener: snapshot.config.address(ofListener: peer.listener))
        snapshot.release()
        reference.adopt(context.snapshot)
        request.end()
        if tunnel != nil { tunnel = nil }
        if transfer != nil { transfer = nil }
        if callDeadline != nil { endTimeLimit() }
        if downstream?.isResponseSent ?? true { responseSent() }
        pool = nil
        attempts.reset()
        if drainCredit != nil { drainCredit = nil }
        context.returnRequestBuffer(replay.reset())
    }

    /// The client has been sent all of the response, or has left.
    func responseSent() {
        endInFlight()
        permit = nil
        route = nil
        hasReloaded = false
    }

    var decider: RequestDecider {
        RequestDecider(
            config: snapshot.config, isTrusted: peer.isTrusted, scheme: peer.scheme, listener: peer.listener,
            decidesForProxy: peer.decidesFor != nil)
    }

    /// Prepares the request for its upstream.
    /// - Returns: The problem, if the request cannot be forwarded.
    func prepareForwarding(to route: RouteRuntime) -> ProblemCode? { decider.prepare(&request, for: route) }

    /// Prepares the request for an account endpoint.
    /// - Returns: The problem, if the request cannot be handled.
    func prepareAccountRequest(_ endpoint: AccountEndpoint) -> ProblemCode? {
        decider.prepare(&request, for: endpoint)
    }

    /// Looks up a session.
    /// - Parameter slides: Whether the lookup counts as a use of the session.
    func lookUp(_ ticket: SessionTicket, now: UInt64, slides: Bool) -> SessionLookup {
        ticketKeys.lookup(
            ticket, in: snapshot.config.sessions, now: context.sessionTime(at: now), slides: slides)
    }

    func execute(_ requestDecision: RequestDecision, now: UInt64) {
        switch requestDecision {
        case .forward(let permit):
            forward(permit, now: now)
        case .forwardAndRefresh(let permit, let session, let ticket):
            snapshot.config.refresher.refreshInBackground(session, ticket: ticket)
            forward(permit, now: now)
        case .malformed:
            telemetry.failed(.invalidRequest)
            respond(ProblemDocument(Problem(.badRequest)), now: now)
        case .problem(let document, let decision, let allow):
            telemetry.decided(decision)
            if decision == .csrfRejected, let proxy = peer.decidesFor { reportMissingOrigin(of: proxy) }
            respond(document, allow: allow, now: now)
        case .denied(let denial):
            deny(denial, now: now)
        case .redirect(let origin):
            redirect(308, to: Array(origin.utf8) + request.normalTarget, now: now)
        case .own(let endpoint):
            telemetry.decided(.local)
            beginAccountRequest(endpoint, now: now)
        case .loadSession(let ticket, let route):
            loadSession(ticket, route: route, now: now)
        case .refresh(let session, let ticket, let route):
            refresh(session, ticket: ticket, route: route, cause: .expired)
        case .exchange(let pending):
            exchange(pending, isReplay: false)
        case .verify(let token, let route):
            verify(token, route: route)
        case .endSession(let ticket, let route):
            endSession(ticket, route: route, now: now)
        case .preflight(let lines, let decision):
            telemetry.decided(decision)
            respond(status: 204, fieldLines: lines, body: [], now: now)
        case .serverOptions:
            respond(status: 204, fieldLines: Self.serverMethodsLine, body: [], now: now)
        }
    }

    private static let serverMethodsLine = Array("Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n".utf8)

    /// Part of the request body was received. Called only while ``acceptsBody`` is `true`.
    func requestBody(_ bytes: ByteBuffer) {
        telemetry.receivedBody(bytes.readableBytes)
        switch machine.state {
        case .bufferingBody:
            guard telemetry.receivedBodyBytes <= (request.accountEndpoint?.bodyLimit ?? 0) else {
                telemetry.decided(.local)
                return respond(ProblemDocument(Problem(.contentTooLarge)), now: context.now)
            }
            replay.append(bytes)
            // A slice of the read would keep all of its buffer for as long as the client does not continue.
            guard context.takeRequestBuffer(replay.hold()) || replay.body.readableBytes <= Self.alwaysBuffered else {
                telemetry.decided(.local)
                return respond(ProblemDocument(Problem(.overloaded, retryAfter: 1)), now: context.now)
            }
        case .gathering: gather(bytes)
        case .awaitingResponse, .streamingResponse:
            guard telemetry.receivedBodyBytes <= bodyLimit else { return bodyTooLarge() }
            if replay.isKept {
                replay.append(bytes)
                keepForwarded()
            }
            upstream?.writeBody(bytes, isChunked: request.framing == .chunked)
            if tunnel == nil {
                creditUpload(bytes.readableBytes)
            } else {
                tunnel?.activity(now: context.now)
                setTunnelDeadline()
            }
        case .tunneling, .tunnelHalfClosed:
            if let allowed = tunnel?.forwardedToUpstream(bytes, now: context.now) {
                upstream?.writeBody(
                    bytes.getSlice(at: bytes.readerIndex, length: allowed) ?? ByteBuffer(), isChunked: false)
                return endTunnel(.messageTooBig)
            }
            upstream?.writeBody(bytes, isChunked: false)
            setTunnelDeadline()
        case .idle, .waitingForConnection, .suspended, .respondingLocally:
            break
        }
    }

    /// Bytes of the body of an account request that are buffered in any case: those of a sign-in.
    private static let alwaysBuffered = 4_096

    /// The request body is complete, or the client closed its side of a tunnel.
    func requestEnd(trailers: TrailerSection? = nil) {
        switch machine.requestEnded() {
        case .finishRequest:
            if request.framing == .chunked {
                let kept = trailers.map {
                    snapshot.config.trailerPolicy.filter($0, connection: request.summary.connection)
                }
                upstream?.writeLastChunk(trailers: kept)
            }
            upstream?.finishRequest()
            guard machine.state == .awaitingResponse(.complete) else { break }
            telemetry.uploadCompleted(now: context.now)
            expectResponse()
        case .lease: bodyGathered(trailers: trailers)
        case .respond: dispatchAccountRequest()
        case .halfClose: upstream?.closeWriteSide()
        case .finishTunnel: finishTunnel()
        case .nothing: break
        }
    }

    /// The framing of the request body is invalid: the bytes after it cannot be interpreted.
    func malformedBody(_ error: WireError) {
        context.reject(error, from: peer.address)
        telemetry.failed(.invalidRequest)
        cancelUpstream()
        switch machine.state {
        case .streamingResponse, .tunneling, .tunnelHalfClosed: abortResponse(.invalidRequest)
        case .waitingForConnection:
            cancelLease()
            respond(ProblemDocument(Problem(error)), now: context.now)
        case .gathering, .awaitingResponse, .bufferingBody, .suspended, .respondingLocally, .idle:
            respond(ProblemDocument(Problem(error)), now: context.now)
        }
    }

    /// The client has disconnected. ``downstream`` is not used after this.
    func downstreamClosed() {
        downstream = nil
        if machine.awaitsResponse { reportCancellation() }
        switch machine.downstreamClosed() {
        case .cancelLease:
            cancelLease()
            finish(errorType: .clientClosed)
        case .closeUpstream:
            cancelUpstream()
            finish(errorType: .clientClosed)
        case .closeTunnel:
            cancelUpstream()
            finish(errorType: nil)
        case .record:
            finish(errorType: .clientClosed)
        case .nothing:
            break
        }
    }
}
