import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore
import Tracing

/// One request and its answer: asks the pure types what to do, and does it.
///
/// It stays on the client's event loop, and so does the connection to the upstream. A client's connection uses one
/// exchange object for all its requests, one after another.
final class Exchange: Equatable {
    let context: LoopContext
    /// What the exchange goes by, from its beginning to its end.
    private(set) var snapshot: LoopSnapshot
    /// Whether it has begun and not ended.
    private var holdsSnapshot = false
    let peer: Peer
    /// The request's head. The client's side fills it in and then calls ``begin(_:now:)``.
    var head = RequestHead()
    /// The version of the client's protocol.
    var protocolVersion = HTTPProtocolVersion.http1_1
    /// Gone once the client is.
    private(set) var downstream: (any ResponseWriter)?
    var machine = ExchangeStateMachine()
    var record = ExchangeRecord()
    var target = RequestTarget.empty
    /// The normal form of the path, where it is not in the request.
    var normalizedPath: [UInt8] = []
    var framing = BodyFraming.none
    var startedAt: UInt64 = 0
    var permit: UpstreamPermit?
    var summary = RequestHeaderPolicy.RequestHeaderSummary()
    var hostRange: ByteRange?
    /// What the request's origin is to CORS.
    var originMatch = CORSPolicy.OriginMatch.notEvaluated
    var trace = ExchangeTrace()
    /// The body of a request for an own endpoint, or a small one that may have to be sent again.
    var bufferedBody = ByteBuffer()
    /// Whether the body is kept for sending it again.
    var buffersForReplay = false
    /// How often the upstream has refused the session's token.
    var tokenRejections = 0
    var accountEndpoint: AccountEndpoint?
    var ticket: SessionTicket?
    /// The ticket that was looked for last on this connection, and its key.
    var cachedTicket: SessionTicket?
    var sessionKey: SessionKey?
    var upstream: UpstreamConnection?
    var pool: UpstreamPool?
    var requestSentAt: UInt64 = 0
    var receivedBodyBytes = 0
    /// What else than an answer is asked for.
    var tunnel = RequestedUpgrade.none
    /// Set while the answer has no end of its own, an event stream or a tunnel: when it has been silent for too long.
    var idleDeadline: UInt64?
    /// Whether the answer is an event stream whose framing gives it no end of its own.
    var isEndlessStream = false
    /// Whether the connection has been told to finish what it is doing.
    var isDrained = false
    /// Whether the session of such an answer is being loaded.
    var isSessionLoading = false
    /// When the session of such an answer is looked at next.
    var sessionDeadline: UInt64 = 0
    /// Where the frames of a WebSocket end, in both directions.
    var downstreamFrames = WebSocketFrameTracker()
    var upstreamFrames = WebSocketFrameTracker()
    /// Whether the client has sent something through a tunnel since the session was looked at.
    var hasClientActivity = false

    init(context: LoopContext, peer: Peer, downstream: any ResponseWriter) {
        self.context = context
        snapshot = context.snapshot
        self.peer = peer
        self.downstream = downstream
    }

    static func == (left: Exchange, right: Exchange) -> Bool { left === right }

    /// Whether there is an exchange at the moment.
    var isActive: Bool { machine.state != .idle }

    /// Whether the client's side may hand over more of the body now.
    var acceptsBody: Bool {
        machine.acceptsBody && (upstream?.isWritable ?? true)
    }

    /// A new exchange begins: it goes by what is in effect now.
    func retainSnapshot() {
        adoptCurrentSnapshot()
        snapshot.retain()
        holdsSnapshot = true
    }

    /// Goes by what is in effect now. Mostly it is the same, and then there is nothing to count references for.
    func adoptCurrentSnapshot() {
        if snapshot !== context.snapshot { snapshot = context.snapshot }
    }

    /// The exchange ends.
    /// - Returns: Whether it had not ended before.
    func releaseSnapshot() -> Bool {
        defer { holdsSnapshot = false }
        return holdsSnapshot
    }

    // MARK: - The request

    /// A request's head is there.
    /// - Parameter tunnel: What else is asked for, where the client's protocol has a way of its own to say so.
    func begin(_ framing: BodyFraming, tunnel: RequestedUpgrade = .none, now: UInt64) {
        self.framing = framing
        self.tunnel = tunnel
        idleDeadline = nil
        isEndlessStream = false
        isSessionLoading = false
        startedAt = now
        receivedBodyBytes = 0
        beginRecord(now: now)
        let requestDecision = decide(now: now)
        beginTrace()
        execute(requestDecision, now: now)
    }

    /// Does what was decided.
    func execute(_ requestDecision: RequestDecision, now: UInt64) {
        switch requestDecision {
        case .forward(let permit):
            forward(permit, now: now)
        case .problem(let document, let decision, let allow):
            record.decision = decision
            respond(document, allow: allow, now: now)
        case .own(let endpoint):
            record.decision = .local
            beginAccountRequest(endpoint, now: now)
        case .loadSession(let ticket, let route):
            loadSession(ticket, route: route, now: now)
        case .refresh(let session, let ticket, let route):
            refresh(session, ticket: ticket, route: route, cause: .expired)
        case .endSession(let ticket, let route):
            endSession(ticket, route: route, now: now)
        case .preflight(let lines, let decision):
            record.decision = decision
            respond(status: 204, title: "No Content", fieldLines: lines, body: [], now: now)
        case .serverOptions:
            respond(status: 204, title: "No Content", fieldLines: Self.serverMethodsLine, body: [], now: now)
        }
    }

    /// A message was refused before there was a request: answers it, and closes.
    func reject(_ error: WireError, now: UInt64) {
        context.reject(error, from: peer.address)
        reject(Problem(error), as: .invalidRequest, now: now)
    }

    /// The request did not arrive in time: answers it, and closes.
    func requestHeadTimedOut(now: UInt64) {
        reject(Problem(.requestTimeout), as: .requestTimeout, now: now)
    }

    private func reject(_ problem: Problem, as error: ExchangeErrorType, now: UInt64) {
        resetHead()
        startedAt = now
        beginRecord(now: now)
        record.errorType = error
        framing = .untilClose
        respond(ProblemDocument(problem), now: now)
    }

    /// Some of the request's body is there. Only while ``acceptsBody``.
    func requestBody(_ bytes: ByteBuffer) {
        receivedBodyBytes += bytes.readableBytes
        switch machine.state {
        case .bufferingBody:
            guard receivedBodyBytes <= (accountEndpoint?.bodyLimit ?? 0) else {
                record.decision = .local
                return respond(ProblemDocument(Problem(.contentTooLarge)), now: context.now)
            }
            bufferedBody.writeImmutableBuffer(bytes)
        case .awaitingResponse, .streamingResponse:
            guard receivedBodyBytes <= bodyLimit else { return bodyTooLarge() }
            if buffersForReplay { becomeIdle(bytes) }
            if framing == .chunked {
                upstream?.writeFraming { ChunkEncoder.writeChunkStart(bytes.readableBytes, into: &$0) }
                upstream?.writeBody(bytes)
                upstream?.writeFraming { ChunkEncoder.writeChunkEnd(into: &$0) }
            } else {
                upstream?.writeBody(bytes)
            }
            if idleDeadline == nil { downstream?.setDeadline(context.now &+ bodyIdle) }
        case .tunneling, .tunnelHalfClosed:
            hasClientActivity = true
            upstreamFrames.advance(over: bytes)
            upstream?.writeBody(bytes)
            resetIdleTimer()
        case .idle, .waitingForConnection, .suspended, .respondingLocally:
            break
        }
    }

    /// Mostly all of it comes at once, and nothing has to be copied.
    private func becomeIdle(_ bytes: ByteBuffer) {
        if bufferedBody.readableBytes == 0 { bufferedBody = bytes } else { bufferedBody.writeImmutableBuffer(bytes) }
    }

    /// The request's body is complete, or the client's side of a tunnel is.
    func requestEnd(trailers: TrailerSection? = nil) {
        switch machine.requestEnded() {
        case .finishRequest:
            if framing == .chunked {
                let kept = trailers.map { snapshot.config.trailerPolicy.filter($0, connection: summary.connection) }
                upstream?.writeFraming { ChunkEncoder.writeLastChunk(trailers: kept, into: &$0) }
            }
            upstream?.finishRequest()
            if machine.state == .awaitingResponse(.complete) { expectResponse() }
        case .respond: dispatchAccountRequest()
        case .halfClose: upstream?.closeWriteSide()
        case .finishTunnel: finishTunnel()
        case .nothing: break
        }
    }

    /// The framing of the request's body is broken: nothing behind it can be trusted.
    func malformedBody(_ error: WireError) {
        context.reject(error, from: peer.address)
        record.errorType = .invalidRequest
        cancelUpstream()
        switch machine.state {
        case .streamingResponse, .tunneling, .tunnelHalfClosed: abortResponse(.invalidRequest)
        case .waitingForConnection:
            pool?.cancel(self)
            respond(ProblemDocument(Problem(error)), now: context.now)
        case .awaitingResponse, .bufferingBody, .suspended, .respondingLocally, .idle:
            respond(ProblemDocument(Problem(error)), now: context.now)
        }
    }

    /// Sends what of the body was handed over so far.
    func flushUpstream() {
        switch machine.state {
        case .awaitingResponse(.open), .streamingResponse(.open), .tunneling(.open), .tunnelHalfClosed:
            upstream?.flush()
        default: break
        }
    }

    // MARK: - Time and ends

    /// The deadline that was set last has passed.
    func deadlineExpired(now: UInt64) {
        downstream?.setDeadline(.max)
        if idleDeadline != nil, checkIdleTimeout(at: now) { return }
        switch machine.deadlineExpired() {
        case .reject:
            pool?.cancel(self)
            upstreamFailed(UpstreamFailure(.poolExhausted), isStale: false)
        case .requestTimeout:
            cancelUpstream()
            record.errorType = .requestTimeout
            respond(ProblemDocument(Problem(.requestTimeout)), now: now)
        case .responseTimeout:
            cancelUpstream()
            upstreamFailed(UpstreamFailure(.responseTimeout), isStale: false)
        case .cut:
            abortResponse(.upstreamTimeout)
        case .nothing:
            break
        }
    }

    /// The client is gone. Nothing is asked of it after this.
    func downstreamClosed() {
        downstream = nil
        switch machine.downstreamClosed() {
        case .cancelLease:
            pool?.cancel(self)
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
