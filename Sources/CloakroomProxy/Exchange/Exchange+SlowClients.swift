import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Request bodies are buffered before a connection to the upstream is leased, so that a client which sends slowly
/// occupies no connection.
extension Exchange {
    /// Minimum size in bytes of a body with a known length that is buffered in HTTP/2, whatever the configuration: if
    /// such a body turns out to have another length, it costs no upstream connection (CVE-2025-8671).
    private static let checkedBody = 1_024
    /// Maximum number of bytes that are buffered in HTTP/2: half of a stream's initial window, so that it is not used
    /// up. The window is returned when the bytes are forwarded.
    private static let streamLimit = 32_768

    /// Bytes of the body that have to arrive before the request is forwarded.
    private var bufferTarget: Int {
        var target = snapshot.requestBuffer
        if request.version == .http2 { target = min(target, Self.streamLimit) }
        guard case .length(let length) = request.framing else { return target }
        return length <= target || (request.version == .http2 && length <= Self.checkedBody) ? length : target
    }

    /// Whether the body is buffered before the request is forwarded. A gRPC call may wait for responses to its first
    /// messages.
    var gathersBody: Bool { bufferTarget > 0 && route?.route.grpc != true }

    /// Sends 100 (Continue) to a client that waits for it with its body (RFC 9110 §10.1.1). `Expect` is not forwarded: a
    /// client that sends no body would occupy an upstream connection, and an upstream that responds without having read
    /// the body would read it as the next request.
    func askForBody() {
        guard request.summary.expectation == .continue, request.framing != .none else { return }
        request.summary.expectation = .none
        downstream?.writeContinue()
    }

    func beginGathering() {
        machine.gather()
        askForBody()
        // Usually the body has arrived together with the head.
        downstream?.resumeRequestBody()
    }

    /// Part of the body was received.
    func gather(_ bytes: ByteBuffer) {
        guard telemetry.receivedBodyBytes <= bodyLimit else { return bodyTooLarge() }
        replay.append(bytes)
        guard replay.body.readableBytes >= bufferTarget else { return }
        // The end of a body of this length is usually reported next.
        if !hasDeclaredLength { stopGathering() }
    }

    /// Whether the buffered bytes are a body of the declared length.
    private var hasDeclaredLength: Bool {
        guard case .length(let length) = request.framing else { return false }
        return replay.body.readableBytes == length
    }

    /// All bytes of a read were passed on, and the body is not complete: from here on the client is waited for, and the
    /// buffered bytes are counted.
    func continueGathering() {
        // A client of HTTP/2 may send END_STREAM in a frame of its own, much later. An upstream connection with a request
        // that is not complete would be closed after the response.
        if hasDeclaredLength { return requestEnd() }
        let now = context.now
        if uploadCredit.isRunning {
            downstream?.setDeadline(uploadCredit.moved(telemetry.receivedBodyBytes - creditedBytes, now: now))
        } else {
            telemetry.bodyWaitStarted(at: now)
            downstream?.setDeadline(uploadCredit.start(now: now))
        }
        creditedBytes = telemetry.receivedBodyBytes
        if !context.takeRequestBuffer(replay.hold()) { stopGathering() }
    }

    /// The request is forwarded, although its body is not complete.
    func stopGathering() {
        guard machine.stopGathering() else { return }
        bodyWaitEnded()
        lease(isFresh: false, now: context.now)
    }

    /// The body is complete: the request is forwarded.
    func bodyGathered(trailers: TrailerSection?) {
        replay.complete(
            trailers: trailers.map {
                snapshot.config.trailerPolicy.filter($0, connection: request.summary.connection)
            })
        bodyWaitEnded()
        lease(isFresh: false, now: context.now)
    }

    private func bodyWaitEnded() {
        guard uploadCredit.isRunning else { return }
        uploadCredit.stop(now: context.now)
        telemetry.bodyWaitEnded(at: context.now)
    }

    /// Writes what is buffered of the body after the head of the request.
    func writeBufferedBody(to lease: any UpstreamLease, isComplete: Bool) {
        let count = replay.body.readableBytes
        if count > 0 {
            lease.writeBody(replay.body, isChunked: request.framing == .chunked)
            downstream?.bufferedBodySent()
        }
        if isComplete {
            guard request.framing == .chunked else { return }
            lease.writeLastChunk(trailers: replay.trailers)
        } else {
            keepForwarded()
        }
    }

    /// What was forwarded of an incomplete body is kept for sending the request again, unless the body is large or
    /// exceeds the memory.
    func keepForwarded() {
        if replay.isKept, context.takeRequestBuffer(replay.hold()) { return }
        context.returnRequestBuffer(replay.discard())
    }
}

/// The credits of clients that send or read slowly.
extension Exchange {
    private var creditLimit: RateCredit.Limit { snapshot.creditLimit(time: bodyIdle) }

    /// The request has a body.
    func openUploadCredit() { uploadCredit = RateCredit(creditLimit) }

    /// Part of the request body was forwarded.
    func creditUpload(_ count: Int) {
        guard tunnel == nil, drainCredit?.isBehind != true else { return }
        _ = uploadCredit.start(now: context.now)
        downstream?.setDeadline(uploadCredit.moved(count, now: context.now))
    }

    /// An upstream that does not read stops the request body. Then the client is not waited for.
    func pauseUploadIfNeeded() {
        guard uploadCredit.isRunning, upstream?.isWritable == false else { return }
        uploadCredit.stop(now: context.now)
        downstream?.setDeadline(context.now &+ bodyIdle)
    }

    /// Whether the upstream has stopped the request body.
    var isUploadPaused: Bool { machine.state == .awaitingResponse(.open) && !uploadCredit.isRunning }

    /// The deadline of a response for which the upstream is waited for.
    func responseDeadline() -> UInt64 {
        // Parts of a request body that follow extend it, as far as they earn credit.
        if case .streamingResponse(.open) = machine.state {
            uploadCredit.refill(now: context.now)
            return uploadCredit.start(now: context.now)
        }
        return context.now &+ bodyIdle
    }

    /// Nothing more can be written to the client: it is waited for.
    func clientFellBehind() {
        guard let downstream, drainCredit?.isBehind != true else { return }
        var credit = drainCredit ?? DrainCredit(creditLimit)
        downstream.setDeadline(credit.begin(coarse: acceptedBytes(isExact: false), now: context.now))
        drainCredit = credit
    }

    /// More can be written to the client: the upstream is waited for.
    func clientCaughtUp() {
        guard drainCredit?.isBehind == true else { return }
        drainCredit?.end(coarse: acceptedBytes(isExact: false), now: context.now)
        downstream?.setDeadline(responseDeadline())
    }

    /// The deadline of a response has passed.
    /// - Returns: Whether the client has read enough of it to continue; the next deadline is set.
    func clientMayContinue(now: UInt64) -> Bool {
        guard drainCredit?.isBehind == true, machine.isRelaying, let downstream,
            let next = drainCredit?.expired(exact: acceptedBytes(isExact: true), now: now)
        else { return false }
        // Others may need the descriptor.
        transfer?.file?.pause()
        downstream.setDeadline(next)
        return true
    }

    /// Bytes of the response that the client has accepted; only differences are meaningful.
    private func acceptedBytes(isExact: Bool) -> Int {
        Int(truncatingIfNeeded: telemetry.record.bytesSent) &- (downstream?.unacceptedBytes(isExact: isExact) ?? 0)
    }

    func clientPace(now: UInt64) -> PressureRule.Lease? {
        guard tunnel == nil, telemetry.sentAt > 0, now > telemetry.sentAt else { return nil }
        let moved: Int
        switch machine.state {
        case .awaitingResponse(.open) where uploadCredit.isRunning: moved = telemetry.receivedBodyBytes
        case .streamingResponse where drainCredit?.isBehind == true: moved = acceptedBytes(isExact: true)
        default: return nil
        }
        if pace.sentAt != telemetry.sentAt || pace.moved != moved { pace = (telemetry.sentAt, moved, now) }
        let client = peer.load.map { ObjectIdentifier($0).hashValue } ?? forwardedClient?.hashValue
        return PressureRule.Lease(
            moved: moved, age: now - telemetry.sentAt,
            // A gRPC call may wait for a response before it sends more.
            still: isForCalls ? 0 : now - pace.since, client: client ?? 0)
    }

    func endForOthers() {
        if case .awaitingResponse = machine.state {
            slowClient(.upload, .pressure)
            cancelUpstream()
            telemetry.failed(.clientTooSlow)
            respond(ProblemDocument(Problem(.requestTimeout)), now: context.now)
        } else {
            slowClient(.download, .pressure)
            abortResponse(.clientTooSlow)
        }
    }

    /// Counts and logs a client that was too slow.
    func slowClient(_ direction: SlowClientDirection, _ cause: SlowClientCause) {
        context.slowClient(direction, cause, of: snapshot, route: route?.route.name, peer: peer.address)
    }
}
