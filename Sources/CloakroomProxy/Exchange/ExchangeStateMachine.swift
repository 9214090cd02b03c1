/// What becomes of one request, from its head to the last byte of its answer.
///
/// It knows nothing of sockets or bytes. An event that cannot happen in a state answers with the action that does
/// nothing, or ends the exchange; it never stops the process.
struct ExchangeStateMachine: Equatable {
    /// Whether more of the request's body is to come.
    enum RequestBody: Equatable {
        case open
        case complete
    }

    enum State: Equatable {
        /// There is no exchange.
        case idle
        /// It waits for a connection to the upstream.
        case waitingForConnection(RequestBody)
        /// It is on its way to the upstream; no answer yet.
        case awaitingResponse(RequestBody)
        /// The answer's head has gone to the client.
        case streamingResponse(RequestBody)
        /// Bytes go both ways, of a protocol that is not ours. The upstream's side is open, the client's may be.
        case tunneling(RequestBody)
        /// The upstream's side of a tunnel has ended, the client's is still open.
        case tunnelHalfClosed
        /// The gateway answers itself, once it has the body.
        case bufferingBody
        /// Something is under way off the event loop.
        case suspended
        /// The gateway has answered.
        case respondingLocally
    }

    private(set) var state = State.idle

    /// Whether the upstream may get body now; otherwise it is to be held back.
    var acceptsBody: Bool {
        switch state {
        case .awaitingResponse(.open), .streamingResponse(.open), .tunneling(.open), .tunnelHalfClosed, .bufferingBody:
            true
        default: false
        }
    }

    /// Whether an answer is under way, or one side of a tunnel still is.
    var isOpenEnded: Bool { isRelaying || state == .tunnelHalfClosed }

    /// Whether bytes from the upstream go to the client.
    var isRelaying: Bool {
        switch state {
        case .streamingResponse, .tunneling: true
        default: false
        }
    }

    // MARK: - The request

    /// The request is to be forwarded.
    mutating func forward(hasBody: Bool) {
        state = .waitingForConnection(hasBody ? .open : .complete)
    }

    /// The gateway answers the request itself.
    mutating func collect() {
        state = .bufferingBody
    }

    /// Work off the event loop begins.
    mutating func suspend() {
        state = .suspended
    }

    enum ResumeAction: Equatable {
        /// Go on with the result.
        case proceed
        /// The client is gone: drop it.
        case drop
    }

    /// Work off the event loop is done.
    mutating func resume() -> ResumeAction {
        state == .suspended ? .proceed : .drop
    }

    enum ConnectionLeasedAction: Equatable {
        /// Send the request.
        case send
        /// Nobody needs the connection: give it back.
        case releaseConnection
    }

    /// A connection to the upstream is there.
    mutating func leased() -> ConnectionLeasedAction {
        guard case .waitingForConnection(let body) = state else { return .releaseConnection }
        state = .awaitingResponse(body)
        return .send
    }

    enum RequestEndAction: Equatable {
        /// Tell the upstream.
        case finishRequest
        /// All of an own endpoint's body is there.
        case respond
        /// The upstream gets no more bytes of the tunnel; its own may still come.
        case halfClose
        /// Both sides of the tunnel have ended.
        case finishTunnel
        /// Nothing to do.
        case nothing
    }

    /// The request's body is complete.
    mutating func requestEnded() -> RequestEndAction {
        switch state {
        case .awaitingResponse:
            state = .awaitingResponse(.complete)
            return .finishRequest
        case .streamingResponse:
            state = .streamingResponse(.complete)
            return .finishRequest
        case .bufferingBody:
            return .respond
        case .tunneling(.open):
            state = .tunneling(.complete)
            return .halfClose
        case .tunnelHalfClosed:
            state = .idle
            return .finishTunnel
        case .tunneling(.complete), .idle, .waitingForConnection, .suspended, .respondingLocally:
            return .nothing
        }
    }

    // MARK: - The answer

    /// The upstream's answer has begun.
    /// - Returns: Whether it is to be passed on.
    mutating func responseStarted() -> Bool {
        guard case .awaitingResponse(let body) = state else { return false }
        state = .streamingResponse(body)
        return true
    }

    /// The upstream changed the protocol.
    /// - Returns: Whether the tunnel stands.
    mutating func switched() -> Bool {
        guard state == .awaitingResponse(.complete) else { return false }
        state = .tunneling(.open)
        return true
    }

    enum TunnelEndAction: Equatable {
        /// The client gets no more bytes of the tunnel; its own may still come.
        case halfClose
        /// Both sides of the tunnel have ended.
        case finish
        /// There is no tunnel.
        case nothing
    }

    /// The upstream's side of the tunnel has ended.
    mutating func tunnelEnded() -> TunnelEndAction {
        switch state {
        case .tunneling(.open):
            state = .tunnelHalfClosed
            return .halfClose
        case .tunneling(.complete):
            state = .idle
            return .finish
        default:
            return .nothing
        }
    }

    /// The upstream's answer is complete, even if the request is not: the rest of that is of no use to anybody.
    /// - Returns: Whether the exchange is over with it.
    mutating func responseEnded() -> Bool {
        guard case .streamingResponse = state else { return false }
        state = .idle
        return true
    }

    /// The gateway has answered; what is left is to tell everybody.
    mutating func respondedLocally() {
        state = .respondingLocally
    }

    /// The exchange is over.
    mutating func finish() {
        state = .idle
    }

    /// The upstream refused the token that the gateway sent: another one is fetched before the answer, or whatever comes
    /// of it, goes to the client.
    /// - Returns: Whether the request can be sent again: the upstream has all of it, and the client nothing of an answer.
    mutating func tokenRejected() -> Bool {
        guard state == .awaitingResponse(.complete) else { return false }
        state = .suspended
        return true
    }

    /// There is another token: the whole request is to be sent once more.
    mutating func replay() {
        state = .waitingForConnection(.complete)
    }

    // MARK: - What can go wrong

    enum UpstreamFailureAction: Equatable {
        /// Send it once more, on a fresh connection.
        case retry
        /// Answer with a problem.
        case respond
        /// The client has part of the answer: cut it off.
        case cut
        /// Nothing to do.
        case nothing
    }

    /// The connection to the upstream failed, or there is none.
    /// - Parameter mayRetry: Whether nothing came back and the request is safe to repeat (RFC 9110 §9.2.2).
    mutating func upstreamFailed(mayRetry: Bool) -> UpstreamFailureAction {
        switch state {
        case .awaitingResponse(.complete) where mayRetry:
            state = .waitingForConnection(.complete)
            return .retry
        case .waitingForConnection, .awaitingResponse:
            return .respond
        case .streamingResponse, .tunneling, .tunnelHalfClosed:
            return .cut
        case .idle, .bufferingBody, .suspended, .respondingLocally:
            return .nothing
        }
    }

    enum DeadlineAction: Equatable {
        /// No connection became free: 503.
        case reject
        /// The client's body stalls: 408.
        case requestTimeout
        /// The upstream does not answer: 504.
        case responseTimeout
        /// The answer stalls: cut it off.
        case cut
        /// Nothing to do.
        case nothing
    }

    /// The time for whatever is waited for is up.
    mutating func deadlineExpired() -> DeadlineAction {
        switch state {
        case .waitingForConnection: .reject
        case .awaitingResponse(.open), .bufferingBody: .requestTimeout
        case .awaitingResponse(.complete): .responseTimeout
        case .streamingResponse, .tunneling, .tunnelHalfClosed, .respondingLocally: .cut
        // Work off the event loop has limits of its own, and always comes back.
        case .idle, .suspended: .nothing
        }
    }

    enum DownstreamClosedAction: Equatable {
        /// Leave the queue for a connection.
        case cancelLease
        /// Close the connection to the upstream.
        case closeUpstream
        /// Close the connection to the upstream: a tunnel mostly ends that way.
        case closeTunnel
        /// Only tell telemetry.
        case record
        /// There was no exchange.
        case nothing
    }

    /// The client is gone.
    mutating func downstreamClosed() -> DownstreamClosedAction {
        defer { state = .idle }
        return switch state {
        case .idle: .nothing
        case .waitingForConnection: .cancelLease
        case .awaitingResponse, .streamingResponse: .closeUpstream
        case .tunneling, .tunnelHalfClosed: .closeTunnel
        case .bufferingBody, .suspended, .respondingLocally: .record
        }
    }
}
