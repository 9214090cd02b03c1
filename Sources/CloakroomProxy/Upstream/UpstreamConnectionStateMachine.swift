import CloakroomCore
import CloakroomWire
import NIOCore

/// What a connection needs to know of a request to interpret its response.
struct UpstreamRequest {
    let isHeadRequest: Bool
    /// The upgrade that the client requested and the route allows.
    let upgrade: RequestedUpgrade
    let responsePolicy: ResponseHeaderPolicy
    /// Credentials that were sent to the upstream and must not reach the client.
    let injectedSecrets: InjectedSecrets
    /// The fields that change in the response; `nil` for none.
    var responseFields: FieldChanges?
    /// Whether the client uses HTTP/2.
    var isClientHTTP2 = false
    var hasSession = false
    private(set) var interimResponses = 0

    /// Maximum number of interim responses to a request: each costs as much as a final one.
    static let maximumInterimResponses = 4_096

    /// Counts an interim response.
    /// - Returns: Whether it is within the limit.
    mutating func mayBeInterim() -> Bool {
        interimResponses += 1
        return interimResponses <= Self.maximumInterimResponses
    }

    /// Marks the fields of the response that are not forwarded. `mutating` only so that the request is not copied.
    mutating func apply(to head: inout ResponseHead) -> ResponseHeaderPolicy.ResponseHeaderSummary {
        responsePolicy.apply(&head, without: injectedSecrets, fields: responseFields, hasSession: hasSession)
    }
}

/// State of an HTTP/1.1 connection to an upstream: parses responses, and decides whether the connection is reusable.
///
/// Pure state machine, no I/O. The caller performs the returned action after the state has changed, so it may call back.
struct UpstreamConnectionStateMachine {
    private enum State {
        /// Not yet passed to its pool.
        case new
        /// At a message boundary, with no request in progress.
        case idle
        /// The head of a response is expected.
        case head
        /// The body of a response is expected; ``decoder`` has its framing.
        case body
        /// Bytes of an upgraded protocol are relayed.
        case tunnel
        case closed
    }

    private var state = State.new
    /// Of the exchange being served.
    private var request: UpstreamRequest?
    private var parser: HeadParser
    private var decoder = BodyDecoder(.none)
    /// Received bytes that are not yet delivered.
    private var inbound = ByteBuffer()
    private var isRequestComplete = false
    private var keepsAlive = true
    private var receivedResponseBytes = false
    private var hadError = false
    private var removed = RemovedResponseFields()
    /// Whether the connection has served an exchange before. The upstream may have closed it, which is not yet detected.
    private(set) var isReused = false
    /// Whether bytes were received that belong to no request: after a response, or instead of the next one.
    private(set) var hasExcessBytes = false

    init(limits: HeadLimits) {
        parser = HeadParser(limits: limits)
    }

    /// Whether the final response head was received and more of the response is expected.
    var isReceivingBody: Bool { state == .body || state == .tunnel }

    private var isServing: Bool {
        switch state {
        case .head, .body, .tunnel: true
        case .new, .idle, .closed: false
        }
    }

    // MARK: - Events of the exchange and of the pool

    mutating func begin(_ request: consuming UpstreamRequest) {
        assert(!isServing, "The connection serves another exchange")
        self.request = request
        state = .head
        isRequestComplete = false
        receivedResponseBytes = false
    }

    /// The request is complete.
    mutating func requestEnded() {
        isRequestComplete = true
    }

    /// The exchange no longer needs the connection.
    /// - Returns: Whether it was serving one, and is to be closed.
    mutating func cancel() -> Bool {
        guard isServing else { return false }
        close()
        return true
    }

    /// The pool keeps the connection.
    mutating func becomeIdle() {
        assert(!isServing && state != .closed, "The connection cannot be kept")
        state = .idle
    }

    /// The pool, or a timeout, ends an idle connection.
    /// - Returns: Whether the connection was idle, and is to be closed.
    mutating func evict() -> Bool {
        guard state == .idle else { return false }
        close()
        return true
    }

    // MARK: - Events of the channel

    enum ReceivedAction: Equatable {
        /// Call ``next(_:isActive:)`` until it returns ``Action/wait``.
        case read
        /// Unsolicited bytes on an idle connection: remove it from its pool and close it.
        case closeIdle
        case close
    }

    /// Bytes were received. They are moved out of the argument, so their storage has no other owner.
    mutating func received(_ bytes: inout ByteBuffer) -> ReceivedAction {
        // An empty read is no byte of a response.
        guard bytes.readableBytes > 0 else { return .read }
        guard isServing else {
            hasExcessBytes = state == .idle && !Self.isIdleTimeout(bytes)
            return evict() ? .closeIdle : .close
        }
        receivedResponseBytes = true
        if inbound.readableBytes > 0 {
            inbound.writeBuffer(&bytes)
        } else {
            inbound = bytes
        }
        bytes = ByteBuffer()
        return .read
    }

    /// Whether bytes on an idle connection announce its end: some servers send 408 (Request Timeout) before they close it.
    private static func isIdleTimeout(_ bytes: ByteBuffer) -> Bool {
        let start = bytes.readableBytesView.prefix(12)
        return start.starts(with: "HTTP/1.".utf8) && start.dropFirst(8).elementsEqual(" 408".utf8)
    }

    /// The upstream closed its side, with half-closure enabled.
    /// - Returns: Whether a tunnel is now half-closed. Otherwise the end of input closes the connection.
    func inputClosed() -> Bool {
        state == .tunnel
    }

    /// The channel reported an error; it is then closed.
    mutating func errorCaught() {
        hadError = true
    }

    enum ClosedAction: Equatable {
        /// Remove the connection from its pool.
        case discardIdle
        /// The response ends with the connection, and is complete.
        case endResponse
        /// Both directions of a tunnel were closed at once.
        case endTunnel
        /// The response is incomplete.
        case fail(UpstreamFailure.Kind, isStale: Bool)
        /// The connection was not in use.
        case ignore
    }

    mutating func closed() -> ClosedAction {
        switch state {
        case .new, .closed:
            return .ignore
        case .idle:
            close()
            return .discardIdle
        case .body where !hadError && decoder.close():
            close()
            return .endResponse
        case .tunnel where !hadError:
            // The exchange ends the tunnel.
            return .endTunnel
        case .head, .body, .tunnel:
            let isStale = isReused && !receivedResponseBytes
            close()
            return .fail(receivedResponseBytes ? .closedDuringResponse : .closedBeforeResponse, isStale: isStale)
        }
    }

    /// Whether the channel's remaining data could not be sent in time after the end of a tunnel.
    var isClosed: Bool { state == .closed }

    // MARK: - Reading

    enum Action: Equatable {
        /// More bytes are needed, or no response is expected.
        case wait
        /// Deliver an interim response.
        case informational
        /// Deliver the head of the response.
        case head(ResponseHeaderPolicy.ResponseHeaderSummary, BodyFraming)
        /// Deliver part of the body, or of a tunnel.
        case body(ByteBuffer)
        /// The response is complete. Return the connection to its pool if it is reusable, otherwise close it; then
        /// deliver the end.
        case end(trailers: TrailerSection?, isReusable: Bool)
        /// The upstream accepted the upgrade: deliver the head, and then the bytes of the tunnel.
        case upgrade
        /// The response is invalid: close the connection.
        case fail(UpstreamFailure.Kind)
    }

    /// Interprets the next part of the received bytes.
    /// - Parameters:
    ///   - head: Reset by the caller after a head is delivered.
    ///   - isActive: Whether the channel is active.
    mutating func next(_ head: inout ResponseHead, isActive: @autoclosure () -> Bool) -> Action {
        do throws(WireError) {
            switch state {
            case .head:
                if try parse(&head) { return try headReceived(&head) }
            case .body:
                switch try decoder.next(&inbound) {
                case .data(let bytes): return .body(bytes)
                case .end:
                    let trailers = decoder.takeTrailers()
                    return .end(trailers: trailers, isReusable: release(isActive: isActive()))
                case .needMoreData: break
                }
            case .tunnel:
                if let bytes = inbound.readSlice(length: inbound.readableBytes), bytes.readableBytes > 0 {
                    return .body(bytes)
                }
            case .new, .idle, .closed: break
            }
        } catch {
            close()
            return .fail(.invalidResponse)
        }
        inbound.releaseReadStorage()
        return .wait
    }

    private mutating func parse(_ head: inout ResponseHead) throws(WireError) -> Bool {
        do throws(WireError) {
            return try parser.parse(&inbound, into: &head)
        } catch {
            hasExcessBytes = isReused && error == .statusLine
            throw error
        }
    }

    /// Storage of the received bytes, in bytes.
    var inboundStorage: Int { inbound.storageCapacity }

    /// The number of fields that were removed since the last call because the upstream must not send them.
    mutating func takeRemovedFields() -> RemovedResponseFields? {
        guard !removed.isEmpty else { return nil }
        defer { removed = RemovedResponseFields() }
        return removed
    }

    private mutating func headReceived(_ head: inout ResponseHead) throws(WireError) -> Action {
        guard let isHeadRequest = request?.isHeadRequest, let upgrade = request?.upgrade else { return .wait }
        let isInterim = head.status < 200
        // For a client that used extended CONNECT, any 2xx status would mean an established tunnel (RFC 8441 §5).
        guard isInterim || head.status >= 300 || upgrade != .webSocketConnect else { throw .statusLine }
        let framing = try BodyFraming.of(head, isToHead: isHeadRequest)
        guard let summary = request?.apply(to: &head) else { return .wait }
        guard !summary.connection.isOverLimit else { throw .connectionOptions }
        removed = summary.removed
        guard !isInterim else {
            guard head.status == 101 else {
                guard request?.mayBeInterim() == true else { throw .statusLine }
                return .informational
            }
            // No upgrade, or a different one, was requested (RFC 9110 §15.2.2).
            guard upgrade != .none, summary.isUpgradeToWebSocket else { throw .statusLine }
            keepsAlive = false
            state = .tunnel
            return .upgrade
        }
        keepsAlive = summary.connection.persists(minorVersion: head.minorVersion) && framing != .untilClose
        decoder = BodyDecoder(framing)
        state = .body
        return .head(summary, framing)
    }

    /// The response is complete: the connection is reusable if both directions are at a message boundary.
    private mutating func release(isActive: Bool) -> Bool {
        guard keepsAlive, isRequestComplete, inbound.readableBytes == 0, isActive else {
            hasExcessBytes = keepsAlive && inbound.readableBytes > 0
            close()
            return false
        }
        request = nil
        state = .idle
        isReused = true
        return true
    }

    private mutating func close() {
        request = nil
        // TLS may wait for close_notify.
        inbound = ByteBuffer()
        state = .closed
    }
}
