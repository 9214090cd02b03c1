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
        case leasing(RequestBody)
        /// It is on its way to the upstream; no answer yet.
        case sent(RequestBody)
        /// The answer's head has gone to the client.
        case relaying(RequestBody)
        /// Bytes go both ways, of a protocol that is not ours. The upstream's side is open, the client's may be.
        case tunnelling(RequestBody)
        /// The upstream's side of a tunnel has ended, the client's is still open.
        case tunnelEnding
        /// The gateway answers itself, once it has the body.
        case collecting
        /// Something is under way off the event loop.
        case parked
        /// The gateway has answered.
        case answered
    }

    private(set) var state = State.idle

    /// Whether the upstream may get body now; otherwise it is to be held back.
    var takesBody: Bool {
        switch state {
        case .sent(.open), .relaying(.open), .tunnelling(.open), .tunnelEnding, .collecting: true
        default: false
        }
    }

    /// Whether an answer is under way, or one side of a tunnel still is.
    var isOpenEnded: Bool { isRelaying || state == .tunnelEnding }

    /// Whether bytes from the upstream go to the client.
    var isRelaying: Bool {
        switch state {
        case .relaying, .tunnelling: true
        default: false
        }
    }

    // MARK: - The request

    /// The request is to be forwarded.
    mutating func forward(hasBody: Bool) {
        state = .leasing(hasBody ? .open : .complete)
    }

    /// The gateway answers the request itself.
    mutating func collect() {
        state = .collecting
    }

    /// Work off the event loop begins.
    mutating func park() {
        state = .parked
    }

    enum OnResume: Equatable {
        /// Go on with the result.
        case proceed
        /// The client is gone: drop it.
        case drop
    }

    /// Work off the event loop is done.
    mutating func resume() -> OnResume {
        state == .parked ? .proceed : .drop
    }

    enum OnLeased: Equatable {
        /// Send the request.
        case send
        /// Nobody needs the connection: give it back.
        case giveBack
    }

    /// A connection to the upstream is there.
    mutating func leased() -> OnLeased {
        guard case .leasing(let body) = state else { return .giveBack }
        state = .sent(body)
        return .send
    }

    enum OnRequestEnd: Equatable {
        /// Tell the upstream.
        case finishRequest
        /// All of an own endpoint's body is there.
        case answer
        /// The upstream gets no more bytes of the tunnel; its own may still come.
        case halfClose
        /// Both sides of the tunnel have ended.
        case finishTunnel
        /// Nothing to do.
        case nothing
    }

    /// The request's body is complete.
    mutating func requestEnded() -> OnRequestEnd {
        switch state {
        case .sent:
            state = .sent(.complete)
            return .finishRequest
        case .relaying:
            state = .relaying(.complete)
            return .finishRequest
        case .collecting:
            return .answer
        case .tunnelling(.open):
            state = .tunnelling(.complete)
            return .halfClose
        case .tunnelEnding:
            state = .idle
            return .finishTunnel
        case .tunnelling(.complete), .idle, .leasing, .parked, .answered:
            return .nothing
        }
    }

    // MARK: - The answer

    /// The upstream's answer has begun.
    /// - Returns: Whether it is to be passed on.
    mutating func responseBegan() -> Bool {
        guard case .sent(let body) = state else { return false }
        state = .relaying(body)
        return true
    }

    /// The upstream changed the protocol.
    /// - Returns: Whether the tunnel stands.
    mutating func switched() -> Bool {
        guard state == .sent(.complete) else { return false }
        state = .tunnelling(.open)
        return true
    }

    enum OnTunnelEnd: Equatable {
        /// The client gets no more bytes of the tunnel; its own may still come.
        case halfClose
        /// Both sides of the tunnel have ended.
        case finish
        /// There is no tunnel.
        case nothing
    }

    /// The upstream's side of the tunnel has ended.
    mutating func tunnelEnded() -> OnTunnelEnd {
        switch state {
        case .tunnelling(.open):
            state = .tunnelEnding
            return .halfClose
        case .tunnelling(.complete):
            state = .idle
            return .finish
        default:
            return .nothing
        }
    }

    /// The upstream's answer is complete, even if the request is not: the rest of that is of no use to anybody.
    /// - Returns: Whether the exchange is over with it.
    mutating func responseEnded() -> Bool {
        guard case .relaying = state else { return false }
        state = .idle
        return true
    }

    /// The gateway has answered; what is left is to tell everybody.
    mutating func answered() {
        state = .answered
    }

    /// The exchange is over.
    mutating func finish() {
        state = .idle
    }

    /// The upstream refused the token that the gateway sent: another one is fetched before the answer, or whatever comes
    /// of it, goes to the client.
    /// - Returns: Whether the request can be sent again: the upstream has all of it, and the client nothing of an answer.
    mutating func tokenRefused() -> Bool {
        guard state == .sent(.complete) else { return false }
        state = .parked
        return true
    }

    /// There is another token: the whole request is to be sent once more.
    mutating func replay() {
        state = .leasing(.complete)
    }

    // MARK: - What can go wrong

    enum OnUpstreamFailure: Equatable {
        /// Send it once more, on a fresh connection.
        case retry
        /// Answer with a problem.
        case answer
        /// The client has part of the answer: cut it off.
        case cut
        /// Nothing to do.
        case nothing
    }

    /// The connection to the upstream failed, or there is none.
    /// - Parameter mayRetry: Whether nothing came back and the request is safe to repeat (RFC 9110 §9.2.2).
    mutating func upstreamFailed(mayRetry: Bool) -> OnUpstreamFailure {
        switch state {
        case .sent(.complete) where mayRetry:
            state = .leasing(.complete)
            return .retry
        case .leasing, .sent:
            return .answer
        case .relaying, .tunnelling, .tunnelEnding:
            return .cut
        case .idle, .collecting, .parked, .answered:
            return .nothing
        }
    }

    enum OnDeadline: Equatable {
        /// No connection became free: 503.
        case refuse
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
    mutating func deadlineExpired() -> OnDeadline {
        switch state {
        case .leasing: .refuse
        case .sent(.open), .collecting: .requestTimeout
        case .sent(.complete): .responseTimeout
        case .relaying, .tunnelling, .tunnelEnding, .answered: .cut
        // Work off the event loop has limits of its own, and always comes back.
        case .idle, .parked: .nothing
        }
    }

    enum OnClientGone: Equatable {
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
    mutating func clientGone() -> OnClientGone {
        defer { state = .idle }
        return switch state {
        case .idle: .nothing
        case .leasing: .cancelLease
        case .sent, .relaying: .closeUpstream
        case .tunnelling, .tunnelEnding: .closeTunnel
        case .collecting, .parked, .answered: .record
        }
    }
}
