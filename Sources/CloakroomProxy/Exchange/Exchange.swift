import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore
import Tracing

/// Drives one request/response exchange: evaluates the decision types, performs the I/O.
///
/// It runs on the client connection's event loop, and so does the upstream connection. A client connection uses one
/// exchange object for all its requests in sequence.
final class Exchange: Equatable {
    let context: LoopContext
    /// Snapshot used from the beginning to the end of the exchange.
    private(set) var snapshot: LoopSnapshot
    /// Whether the exchange has begun and not ended, and therefore holds a reference to the snapshot.
    private var holdsSnapshot = false
    let peer: Peer
    /// The request head. The downstream handler fills it in and then calls ``begin(_:now:)``.
    var head = RequestHead()
    /// HTTP version of the client connection.
    var protocolVersion = HTTPProtocolVersion.http1_1
    /// `nil` after the client has disconnected.
    private(set) var downstream: (any ResponseWriter)?
    var machine = ExchangeStateMachine()
    var record = ExchangeRecord()
    var target = RequestTarget.empty
    /// The normalized path, if it differs from the path in the request.
    var normalizedPath: [UInt8] = []
    var framing = BodyFraming.none
    var startedAt: UInt64 = 0
    var permit: UpstreamPermit?
    var summary = RequestHeaderPolicy.RequestHeaderSummary()
    var hostRange: ByteRange?
    /// How the request's origin matches the CORS policy.
    var originMatch = CORSPolicy.OriginMatch.notEvaluated
    var trace = ExchangeTrace()
    /// The body of an account request, or a small body kept for sending the request again.
    var bufferedBody = ByteBuffer()
    /// Whether the body is kept for sending the request again.
    var buffersForReplay = false
    /// Number of times that the upstream rejected the session's token.
    var tokenRejections = 0
    var accountEndpoint: AccountEndpoint?
    var ticket: SessionTicket?
    /// The ticket of the last lookup on this connection, and its key.
    var cachedTicket: SessionTicket?
    var sessionKey: SessionKey?
    var upstream: UpstreamConnection?
    var pool: UpstreamPool?
    var requestSentAt: UInt64 = 0
    var receivedBodyBytes = 0
    /// The requested upgrade, if any.
    var tunnel = RequestedUpgrade.none
    /// End of the idle timeout. Set while the response is open-ended (an event stream or a tunnel).
    var idleDeadline: UInt64?
    /// Whether the response is an event stream whose framing gives no length.
    var isEndlessStream = false
    /// Whether the connection is draining.
    var isDrained = false
    /// Whether the session of an open-ended response is being loaded.
    var isSessionLoading = false
    /// Time of the next session check of an open-ended response.
    var sessionDeadline: UInt64 = 0
    /// Track WebSocket frame boundaries in both directions.
    var downstreamFrames = WebSocketFrameTracker()
    var upstreamFrames = WebSocketFrameTracker()
    /// Whether the client has sent data through a tunnel since the last session check.
    var hasClientActivity = false

    init(context: LoopContext, peer: Peer, downstream: any ResponseWriter) {
        self.context = context
        snapshot = context.snapshot
        self.peer = peer
        self.downstream = downstream
    }

    static func == (left: Exchange, right: Exchange) -> Bool { left === right }

    /// Whether an exchange is in progress.
    var isActive: Bool { machine.state != .idle }

    /// Whether the downstream handler may pass on more of the body now.
    var acceptsBody: Bool {
        machine.acceptsBody && (upstream?.isWritable ?? true)
    }

    /// A new exchange begins: it uses the snapshot in effect now.
    func retainSnapshot() {
        adoptCurrentSnapshot()
        snapshot.retain()
        holdsSnapshot = true
    }

    /// Adopts the snapshot in effect now. Usually it is unchanged, which saves reference counting.
    func adoptCurrentSnapshot() {
        if snapshot !== context.snapshot { snapshot = context.snapshot }
    }

    /// The exchange ends.
    /// - Returns: Whether it was still counted, that is, had not ended before.
    func releaseSnapshot() -> Bool {
        defer { holdsSnapshot = false }
        return holdsSnapshot
    }

    // MARK: - The request

    /// Begins an exchange with a complete request head.
    /// - Parameter tunnel: The requested upgrade, if the client's protocol has its own way to request one.
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

    /// Executes a decision.
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

    /// Rejects a message that is not a valid request: responds and closes the connection.
    func reject(_ error: WireError, now: UInt64) {
        context.reject(error, from: peer.address)
        reject(Problem(error), as: .invalidRequest, now: now)
    }

    /// Rejects a request whose head did not arrive in time: responds and closes the connection.
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

    /// Part of the request body was received. Called only while ``acceptsBody`` is `true`.
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

    /// Usually the body arrives in one piece, which avoids a copy.
    private func becomeIdle(_ bytes: ByteBuffer) {
        if bufferedBody.readableBytes == 0 { bufferedBody = bytes } else { bufferedBody.writeImmutableBuffer(bytes) }
    }

    /// The request body is complete, or the client closed its side of a tunnel.
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

    /// The framing of the request body is invalid: the bytes after it cannot be interpreted.
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

    /// Sends the body bytes passed on so far.
    func flushUpstream() {
        switch machine.state {
        case .awaitingResponse(.open), .streamingResponse(.open), .tunneling(.open), .tunnelHalfClosed:
            upstream?.flush()
        default: break
        }
    }

    // MARK: - Deadlines and ends

    /// The last deadline set has passed.
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

    /// The client has disconnected. ``downstream`` is not used after this.
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

/// Local responses: responses made by the gateway itself.
extension Exchange {
    /// Responds with a problem document.
    func respond(
        _ document: ProblemDocument, allow: String? = nil, moreFieldLines: [UInt8] = [], now: UInt64
    ) {
        var lines = moreFieldLines
        lines += Array("Content-Type: application/problem+json\r\nCache-Control: no-store\r\n".utf8)
        if document.problem.status == 401 { lines += Self.challengeLine }
        if let retryAfter = document.problem.retryAfter { lines += Array("Retry-After: \(retryAfter)\r\n".utf8) }
        if let allow { lines += Array("Allow: \(allow)\r\n".utf8) }
        var body = document.prefix
        body.reserveCapacity(body.count + 32 + document.suffix.count)
        body.append(contentsOf: record.requestID.description.utf8)
        body += document.suffix
        respond(
            status: document.problem.status, title: document.problem.title, fieldLines: lines, body: body, now: now)
    }

    /// Responds with the given status, field lines and body.
    func respond(status: Int, title: String, fieldLines: [UInt8], body: [UInt8], now: UInt64) {
        guard let downstream else { return }
        machine.respondedLocally()
        record.status = UInt16(clamping: status)
        // The client gets a local response, so the upstream's status is recorded as absent.
        if requestSentAt != 0 { record.upstreamStatus = 0 }
        let isToHead = record.method == .head
        record.bytesSent = isToHead ? 0 : UInt64(body.count)
        var fieldLines = fieldLines
        if let lines = snapshot.config.cors.responseFieldLines(originMatch) { fieldLines += lines }
        downstream.writeLocalResponse(
            LocalResponse(status: status, title: title, fieldLines: fieldLines, body: body, date: context.date))
        downstream.flush()
        machine.finish()
        finish(errorType: record.errorType)
        downstream.exchangeCompleted()
    }

    /// An authentication scheme that browsers do not know, so they open no credentials dialog (RFC 9110 §11.6.1).
    private static let challengeLine = Array("WWW-Authenticate: Session realm=\"cloakroom\"\r\n".utf8)
    static let serverMethodsLine = Array("Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n".utf8)
}

/// Limits of an exchange, and aborting it.
extension Exchange {
    /// Aborts the response: the client must notice that it is incomplete.
    func abortResponse(_ error: ExchangeErrorType) {
        cancelUpstream()
        let downstream = self.downstream
        machine.finish()
        finish(errorType: error)
        downstream?.abort()
    }

    /// Cancels the upstream request, whether or not a response was received.
    func cancelUpstream() {
        upstream?.cancel()
        upstream = nil
    }

    /// The request body exceeds the route's limit.
    func bodyTooLarge() {
        cancelUpstream()
        record.errorType = .bodyTooLarge
        guard case .awaitingResponse = machine.state, let permit else { return abortResponse(.bodyTooLarge) }
        respond(snapshot.config.routes[permit.route].problem(.contentTooLarge), now: context.now)
    }

    /// Starts the response timeout. Called when the request has been sent.
    func expectResponse() {
        guard let permit else { return }
        downstream?.setDeadline(requestSentAt &+ snapshot.config.routes[permit.route].responseHeadTimeout)
    }

    /// Maximum pause within a body, in nanoseconds.
    var bodyIdle: UInt64 {
        permit.map { snapshot.config.routes[$0.route].bodyIdleTimeout } ?? snapshot.timeouts.bodyIdle
    }

    /// Maximum size of a request body, in bytes.
    var bodyLimit: Int {
        permit.map { snapshot.config.routes[$0.route].bodyLimit } ?? 0
    }

    /// Whether the request is idempotent (RFC 9110 §9.2.2) and has no body, so it can be sent again.
    var isIdempotent: Bool {
        framing == .none && record.method.isIdempotent
    }
}
