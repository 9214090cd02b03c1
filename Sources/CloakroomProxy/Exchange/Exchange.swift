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
    private(set) var generation: TableGeneration
    /// Whether it has begun and not ended.
    private var isCounted = false
    let peer: Peer
    /// The request's head. The client's side fills it in and then calls ``begin(_:now:)``.
    var head = RequestHead()
    /// The version of the client's protocol.
    var protocolVersion = ExchangeProtocolVersion.http1_1
    /// Gone once the client is.
    private(set) var downstream: (any ExchangeDownstream)?
    var machine = ExchangeStateMachine()
    var record = ExchangeRecord()
    var target = RequestTarget.empty
    /// The normal form of the path, where it is not in the request.
    var scratch: [UInt8] = []
    var framing = BodyFraming.none
    var startedAt: UInt64 = 0
    var permit: UpstreamPermit?
    var marks = RequestHeaderPolicy.Marks()
    var hostRange: ByteRange?
    /// What the request's origin is to CORS.
    var crossOrigin = CORSPolicy.Standing.silent
    var trace = ExchangeTrace()
    /// The body of a request for an own endpoint, or a small one that may have to be sent again.
    var collected = ByteBuffer()
    /// Whether the body is kept for sending it again.
    var keepsBody = false
    /// How often the upstream has refused the session's token.
    var refusals = 0
    var ownEndpoint: OwnEndpoint?
    var ticket: SessionTicket?
    /// The ticket that was looked for last on this connection, and its key.
    var hashedTicket: SessionTicket?
    var sessionKey: SessionKey?
    var upstream: UpstreamConnection?
    var pool: UpstreamPool?
    var sentAt: UInt64 = 0
    var receivedBody = 0
    /// What else than an answer is asked for.
    var tunnel = TunnelRequest.none
    /// Set while the answer has no end of its own, an event stream or a tunnel: when it has been silent for too long.
    var silenceDeadline: UInt64?
    /// Whether the answer is an event stream whose framing gives it no end of its own.
    var isEndlessStream = false
    /// Whether the connection has been told to finish what it is doing.
    var isDrained = false
    /// Whether the session of such an answer is being loaded.
    var isSessionLoading = false
    /// When the session of such an answer is looked at next.
    var sessionDeadline: UInt64 = 0
    /// Where the frames of a WebSocket end, in both directions.
    var toClient = WebSocketFrameScan()
    var toUpstream = WebSocketFrameScan()
    /// Whether the client has sent something through a tunnel since the session was looked at.
    var hasClientBytes = false

    init(context: LoopContext, peer: Peer, downstream: any ExchangeDownstream) {
        self.context = context
        generation = context.generation
        self.peer = peer
        self.downstream = downstream
    }

    static func == (left: Exchange, right: Exchange) -> Bool { left === right }

    /// Whether there is an exchange at the moment.
    var isActive: Bool { machine.state != .idle }

    /// Whether the client's side may hand over more of the body now.
    var takesBody: Bool {
        machine.takesBody && (upstream?.isWritable ?? true)
    }

    /// A new exchange begins: it goes by what is in effect now.
    func enterGeneration() {
        settleGeneration()
        generation.enter()
        isCounted = true
    }

    /// Goes by what is in effect now. Mostly it is the same, and then there is nothing to count references for.
    func settleGeneration() {
        if generation !== context.generation { generation = context.generation }
    }

    /// The exchange ends.
    /// - Returns: Whether it had not ended before.
    func leaveGeneration() -> Bool {
        defer { isCounted = false }
        return isCounted
    }

    // MARK: - The request

    /// A request's head is there.
    /// - Parameter tunnel: What else is asked for, where the client's protocol has a way of its own to say so.
    func begin(_ framing: BodyFraming, tunnel: TunnelRequest = .none, now: UInt64) {
        self.framing = framing
        self.tunnel = tunnel
        silenceDeadline = nil
        isEndlessStream = false
        isSessionLoading = false
        startedAt = now
        receivedBody = 0
        beginRecord(now: now)
        let disposition = decide(now: now)
        beginTrace()
        carryOut(disposition, now: now)
    }

    /// Does what was decided.
    func carryOut(_ disposition: Disposition, now: UInt64) {
        switch disposition {
        case .forward(let permit):
            forward(permit, now: now)
        case .problem(let document, let decision, let allow):
            record.decision = decision
            answer(document, allow: allow, now: now)
        case .own(let endpoint):
            record.decision = .own
            beginOwn(endpoint, now: now)
        case .loadSession(let ticket, let route):
            loadSession(ticket, route: route, now: now)
        case .renew(let session, let ticket, let route):
            renew(session, ticket: ticket, route: route, cause: .expiry)
        case .endSession(let ticket, let route):
            endSession(ticket, route: route, now: now)
        case .preflight(let lines, let decision):
            record.decision = decision
            answer(status: 204, title: "No Content", fieldLines: lines, body: [], now: now)
        case .allowEverything:
            answer(status: 204, title: "No Content", fieldLines: Self.serverMethodsLine, body: [], now: now)
        }
    }

    /// A message was refused before there was a request: answers it, and closes.
    func refuse(_ error: WireError, now: UInt64) {
        context.reject(error, from: peer.address)
        refuse(Problem(error), as: .invalidRequest, now: now)
    }

    /// The request did not arrive in time: answers it, and closes.
    func refuseSlowHead(now: UInt64) {
        refuse(Problem(.requestTimeout), as: .requestTimeout, now: now)
    }

    private func refuse(_ problem: Problem, as error: ExchangeError, now: UInt64) {
        forgetHead()
        startedAt = now
        beginRecord(now: now)
        record.errorType = error
        framing = .untilClose
        answer(ProblemDocument(problem), now: now)
    }

    /// Some of the request's body is there. Only while ``takesBody``.
    func requestBody(_ bytes: ByteBuffer) {
        receivedBody += bytes.readableBytes
        switch machine.state {
        case .collecting:
            guard receivedBody <= (ownEndpoint?.bodyLimit ?? 0) else {
                record.decision = .own
                return answer(ProblemDocument(Problem(.contentTooLarge)), now: context.now)
            }
            collected.writeImmutableBuffer(bytes)
        case .sent, .relaying:
            guard receivedBody <= bodyLimit else { return bodyTooLarge() }
            if keepsBody { keep(bytes) }
            if framing == .chunked {
                upstream?.writeFraming { ChunkEncoder.writeChunkStart(bytes.readableBytes, into: &$0) }
                upstream?.writeBody(bytes)
                upstream?.writeFraming { ChunkEncoder.writeChunkEnd(into: &$0) }
            } else {
                upstream?.writeBody(bytes)
            }
            if silenceDeadline == nil { downstream?.setDeadline(context.now &+ bodyIdle) }
        case .tunnelling, .tunnelEnding:
            hasClientBytes = true
            toUpstream.advance(over: bytes)
            upstream?.writeBody(bytes)
            watchSilence()
        case .idle, .leasing, .parked, .answered:
            break
        }
    }

    /// Mostly all of it comes at once, and nothing has to be copied.
    private func keep(_ bytes: ByteBuffer) {
        if collected.readableBytes == 0 { collected = bytes } else { collected.writeImmutableBuffer(bytes) }
    }

    /// The request's body is complete, or the client's side of a tunnel is.
    func requestEnd(trailers: TrailerSection? = nil) {
        switch machine.requestEnded() {
        case .finishRequest:
            if framing == .chunked {
                let kept = trailers.map { generation.tables.trailerPolicy.kept($0, connection: marks.connection) }
                upstream?.writeFraming { ChunkEncoder.writeLastChunk(trailers: kept, into: &$0) }
            }
            upstream?.finishRequest()
            if machine.state == .sent(.complete) { expectResponse() }
        case .answer: answerOwn()
        case .halfClose: upstream?.closeOutput()
        case .finishTunnel: finishTunnel()
        case .nothing: break
        }
    }

    /// The framing of the request's body is broken: nothing behind it can be trusted.
    func bodyIsMalformed(_ error: WireError) {
        context.reject(error, from: peer.address)
        record.errorType = .invalidRequest
        cancelUpstream()
        switch machine.state {
        case .relaying, .tunnelling, .tunnelEnding: cut(.invalidRequest)
        case .leasing:
            pool?.cancel(self)
            answer(ProblemDocument(Problem(error)), now: context.now)
        case .sent, .collecting, .parked, .answered, .idle:
            answer(ProblemDocument(Problem(error)), now: context.now)
        }
    }

    /// Sends what of the body was handed over so far.
    func flushUpstream() {
        switch machine.state {
        case .sent(.open), .relaying(.open), .tunnelling(.open), .tunnelEnding: upstream?.flush()
        default: break
        }
    }

    // MARK: - Time and ends

    /// The deadline that was set last has passed.
    func deadlineExpired(now: UInt64) {
        downstream?.setDeadline(.max)
        if silenceDeadline != nil, goesOn(at: now) { return }
        switch machine.deadlineExpired() {
        case .refuse:
            pool?.cancel(self)
            upstreamFailed(UpstreamFailure(.exhausted), isStale: false)
        case .requestTimeout:
            cancelUpstream()
            record.errorType = .requestTimeout
            answer(ProblemDocument(Problem(.requestTimeout)), now: now)
        case .responseTimeout:
            cancelUpstream()
            upstreamFailed(UpstreamFailure(.responseTimeout), isStale: false)
        case .cut:
            cut(.upstreamTimeout)
        case .nothing:
            break
        }
    }

    /// The client is gone. Nothing is asked of it after this.
    func clientGone() {
        downstream = nil
        switch machine.clientGone() {
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
