/// State of one request, from its head to the last byte of its response.
///
/// Pure state machine, no I/O. An event that is not possible in a state returns the action that does nothing, or ends
/// the exchange; it never traps.
struct ExchangeStateMachine: Equatable {
    /// Whether more of the request body is expected.
    enum RequestBody: Equatable {
        case open
        case complete
    }

    enum State: Equatable {
        /// No exchange is in progress.
        case idle
        /// The request body is buffered, before a connection to the upstream is leased.
        case gathering
        /// Waiting for a connection to the upstream.
        case waitingForConnection(RequestBody)
        /// The request is being sent to the upstream; no response has been received.
        case awaitingResponse(RequestBody)
        /// The response has begun.
        case streamingResponse(RequestBody)
        /// An upgraded connection is relayed in both directions. The upstream's side is open; the client's side may be
        /// closed.
        case tunneling(RequestBody)
        /// The upstream's side of a tunnel has ended; the client's side is still open.
        case tunnelHalfClosed
        /// A local response is sent once the request body is complete.
        case bufferingBody
        /// Work off the event loop is in progress.
        case suspended
        /// A local response has been sent.
        case respondingLocally
    }

    private(set) var state = State.idle
    /// The body of a suspended request that had been waiting for a connection.
    private var suspendedBody = RequestBody.complete

    /// Whether body bytes may be passed on now; otherwise they are held back.
    var acceptsBody: Bool {
        switch state {
        case .awaitingResponse(.open), .streamingResponse(.open), .tunneling(.open), .tunnelHalfClosed, .bufferingBody,
            .gathering:
            true
        default: false
        }
    }

    /// Whether the request body that was passed on is buffered, because no upstream receives it yet.
    var holdsBody: Bool {
        switch state {
        case .gathering, .waitingForConnection: true
        case .suspended: suspendedBody == .open
        default: false
        }
    }

    /// Whether bytes from the upstream are forwarded to the client.
    var isRelaying: Bool {
        switch state {
        case .streamingResponse, .tunneling: true
        default: false
        }
    }

    /// Whether the request waits for a connection to the upstream.
    var waitsForConnection: Bool {
        if case .waitingForConnection = state { true } else { false }
    }

    /// Whether the request is complete, as far as the upstream has to receive it.
    var isRequestComplete: Bool {
        switch state {
        case .waitingForConnection(.complete), .awaitingResponse(.complete): true
        default: false
        }
    }

    /// Whether the request is being sent, or was sent, and has no response.
    var awaitsResponse: Bool {
        if case .awaitingResponse = state { true } else { false }
    }

    // MARK: - The request

    /// The request will be forwarded at once.
    mutating func forward(hasBody: Bool) {
        state = .waitingForConnection(hasBody ? .open : .complete)
    }

    /// The request will be forwarded when its body, or enough of it, has arrived.
    mutating func gather() {
        state = .gathering
    }

    /// The request is forwarded although its body is not complete.
    /// - Returns: Whether to lease a connection now.
    mutating func stopGathering() -> Bool {
        guard state == .gathering else { return false }
        state = .waitingForConnection(.open)
        return true
    }

    /// The request gets a local response.
    mutating func collect() {
        state = .bufferingBody
    }

    /// Work off the event loop begins.
    mutating func suspend() {
        if case .waitingForConnection(let body) = state { suspendedBody = body }
        state = .suspended
    }

    enum ResumeAction: Equatable {
        /// Continue with the result.
        case proceed
        /// The client has disconnected: drop the result.
        case drop
    }

    /// Work off the event loop is done.
    mutating func resume() -> ResumeAction {
        state == .suspended ? .proceed : .drop
    }

    enum ConnectionLeasedAction: Equatable {
        /// Send the request.
        case send
        /// The connection is not needed: return it to the pool.
        case releaseConnection
    }

    /// A connection to the upstream was leased.
    mutating func leased() -> ConnectionLeasedAction {
        guard case .waitingForConnection(let body) = state else { return .releaseConnection }
        state = .awaitingResponse(body)
        return .send
    }

    enum RequestEndAction: Equatable {
        /// Complete the request to the upstream.
        case finishRequest
        /// The body is buffered as a whole: lease a connection.
        case lease
        /// The body of an account request is complete.
        case respond
        /// Close the upstream connection's write side; it may still send data.
        case halfClose
        /// Both sides of the tunnel have ended.
        case finishTunnel
        case nothing
    }

    /// The request body is complete.
    mutating func requestEnded() -> RequestEndAction {
        switch state {
        case .awaitingResponse:
            state = .awaitingResponse(.complete)
            return .finishRequest
        case .streamingResponse:
            state = .streamingResponse(.complete)
            return .finishRequest
        case .gathering:
            state = .waitingForConnection(.complete)
            return .lease
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

    // MARK: - The response

    /// The upstream's response has begun.
    /// - Returns: Whether to forward it.
    mutating func responseStarted() -> Bool {
        guard case .awaitingResponse(let body) = state else { return false }
        state = .streamingResponse(body)
        return true
    }

    /// A file is sent as the response. The body of the request, if any, is discarded.
    mutating func sendFile() { state = .streamingResponse(.complete) }

    /// The upstream accepted the upgrade.
    /// - Returns: Whether the tunnel is established.
    mutating func switched() -> Bool {
        guard state == .awaitingResponse(.complete) else { return false }
        state = .tunneling(.open)
        return true
    }

    enum TunnelEndAction: Equatable {
        /// End the stream to the client; it may still send data.
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

    /// The upstream's response is complete. If the request is not, its remaining body is discarded.
    mutating func responseEnded() -> Bool {
        guard case .streamingResponse = state else { return false }
        state = .idle
        return true
    }

    /// A local response was sent.
    mutating func respondedLocally() {
        state = .respondingLocally
    }

    /// The exchange has ended.
    mutating func finish() {
        state = .idle
    }

    /// The upstream rejected the session's token. A new one is obtained before the client gets a response.
    /// - Returns: Whether the request can be sent again: the upstream has received all of it, and the client no part of
    ///   a response.
    mutating func tokenRejected() -> Bool {
        guard state == .awaitingResponse(.complete) else { return false }
        suspendedBody = .complete
        state = .suspended
        return true
    }

    /// The suspended request is permitted again, possibly with a new token: it waits for a connection.
    mutating func forwardAgain() {
        state = .waitingForConnection(suspendedBody)
    }

    // MARK: - Failures

    enum UpstreamFailureAction: Equatable {
        /// Send the request again on a new connection.
        case retry
        /// Respond with a problem document.
        case respond
        /// The response has begun: abort it, or replace it if none of it is sent.
        case cut
        case nothing
    }

    /// The connection to the upstream failed, or none could be made.
    /// - Parameter mayRetry: Whether no response was received and the request is safe to repeat (RFC 9110 §9.2.2).
    mutating func upstreamFailed(mayRetry: Bool) -> UpstreamFailureAction {
        switch state {
        case .awaitingResponse(.complete) where mayRetry:
            state = .waitingForConnection(.complete)
            return .retry
        case .waitingForConnection, .awaitingResponse:
            return .respond
        case .streamingResponse, .tunneling, .tunnelHalfClosed:
            return .cut
        case .idle, .gathering, .bufferingBody, .suspended, .respondingLocally:
            return .nothing
        }
    }

    enum DeadlineAction: Equatable {
        /// The request body stalls: 408.
        case requestTimeout
        /// The upstream does not respond: 504.
        case responseTimeout
        /// The response stalls: abort it.
        case cut
        case nothing
    }

    /// The deadline of the current state has passed.
    mutating func deadlineExpired() -> DeadlineAction {
        switch state {
        case .gathering, .awaitingResponse(.open), .bufferingBody: .requestTimeout
        case .awaitingResponse(.complete): .responseTimeout
        case .streamingResponse, .tunneling, .tunnelHalfClosed, .respondingLocally: .cut
        // The pool limits the time that a request waits. Work off the event loop has its own limits and always completes.
        case .idle, .waitingForConnection, .suspended: .nothing
        }
    }

    enum DownstreamClosedAction: Equatable {
        /// Leave the queue for a connection.
        case cancelLease
        /// Close the connection to the upstream.
        case closeUpstream
        /// Close the connection to the upstream; the usual end of a tunnel, so not an error.
        case closeTunnel
        /// Only report to telemetry.
        case record
        /// There was no exchange.
        case nothing
    }

    /// The client has disconnected.
    mutating func downstreamClosed() -> DownstreamClosedAction {
        defer { state = .idle }
        return switch state {
        case .idle: .nothing
        case .waitingForConnection: .cancelLease
        case .awaitingResponse, .streamingResponse: .closeUpstream
        case .tunneling, .tunnelHalfClosed: .closeTunnel
        case .gathering, .bufferingBody, .suspended, .respondingLocally: .record
        }
    }
}
