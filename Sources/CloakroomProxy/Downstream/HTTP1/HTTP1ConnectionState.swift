import CloakroomCore
import CloakroomWire
import NIOCore

/// State of a client's HTTP/1.1 connection: what the next bytes are, and whether the connection is reusable.
///
/// Pure state machine, no I/O. The caller performs the steps and actions returned.
struct HTTP1ConnectionState {
    enum Phase: Equatable {
        /// The next bytes begin a request.
        case head
        /// The next bytes are a request body.
        case body
        /// The request is complete; its response is pending.
        case awaitingResponse
        /// The response is complete; the remaining request body is discarded, to keep the connection.
        case drainingBody
        /// The next bytes belong to a tunnel.
        case tunnel
        /// The last response is written; further input is discarded.
        case lingering
        case closed
    }

    enum Step: Equatable {
        /// Nothing more is possible at the moment.
        case wait
        /// Call ``parseHead(into:)``, then ``requestReceived(_:framing:)``.
        case parseHead
        /// Part of a request body, or of the data of a tunnel.
        case body(ByteBuffer)
        /// The request body, or the client's side of a tunnel, has ended.
        case bodyEnd(TrailerSection?)
        case malformedBody(WireError)
        /// Part of an unneeded body was discarded.
        case discarded
        /// An unneeded body was discarded completely: wait for the next request.
        case nextRequest
        case linger
    }

    enum ResponseCompletedAction: Equatable {
        /// Wait for the next request.
        case next
        /// Discard the remaining request body first.
        case drainBody
        case linger
        case alreadyClosed
    }

    enum LingerAction: Equatable {
        /// Close the write side, then call ``responseSent()``.
        case closeOutput
        /// As ``closeOutput``, but both sides of a tunnel have ended already.
        case endTunnel
    }

    /// The `Connection` field of a response (RFC 9112 §9.3).
    enum ConnectionField: Equatable {
        /// The default of the HTTP version applies.
        case omitted
        case keepAlive
        case close
    }

    /// Maximum size in bytes of an unneeded body that is read to keep the connection. Reading it costs less than a new
    /// connection. It has a known length, so its framing ends it.
    static let discardLimit = 65_536

    /// Maximum size in bytes of buffered input during an exchange, before reading stops. Less than one read: a second read
    /// would be copied to storage of four times its size.
    private static let inputLimit = 16_384

    private(set) var phase = Phase.head
    /// Input that no step has consumed. Pipelined requests wait here (RFC 9112 §9.3.2).
    private var input = ByteBuffer()
    private var parser: HeadParser
    private var decoder = BodyDecoder(.none)
    private var bodyFraming = BodyFraming.none
    private var isHTTP1_0 = false
    /// Whether the connection is reusable after the current response.
    private var keepsAlive = true
    /// Whether the head of the current response is written, with the `Connection` field that belongs to ``keepsAlive``.
    private var isHeadWritten = false
    /// Whether the connection closes after the next response, regardless of `Connection` fields. The head of the next
    /// request may be partly received.
    private(set) var closesAfterResponse = false
    /// In a tunnel: whether the client's end of input has yet to be reported.
    private var isInputClosed = false
    /// In a tunnel: whether the client has ended its input.
    private(set) var hasInputEnded = false
    /// Whether the last response is completely sent.
    private var isAllSent = false

    init(limits: HeadLimits) {
        parser = HeadParser(limits: limits)
    }

    /// Whether part of a request head has been received.
    var isReceivingHead: Bool { phase == .head && (parser.isInHead || input.readableBytes > 0) }

    /// Whether part of a request head has been received, but none of it parsed.
    var hasUnparsedHead: Bool { isReceivingHead && !parser.isInHead }

    var hasInput: Bool { input.readableBytes > 0 }

    var connectionField: ConnectionField {
        guard keepsAlive else { return .close }
        return isHTTP1_0 ? .keepAlive : .omitted
    }

    // MARK: - Input

    /// Adds input. Its storage is released by the caller, so that it can be reused for the next read.
    mutating func receive(_ bytes: inout ByteBuffer) {
        // Input is discarded without a size limit; a deadline ends it. Unread input would cause a reset before the
        // client has read the response. TLS still delivers input while a closed connection waits for the client's
        // close_notify.
        guard phase != .lingering, phase != .closed else { return }
        if hasInput { input.writeBuffer(&bytes) } else { swap(&input, &bytes) }
        bytes = ByteBuffer()
    }

    /// Releases the storage of consumed input. To be called after each read: part of a pipelined request may remain.
    mutating func releaseInput() { input.releaseReadStorage() }

    /// Storage of the input, in bytes.
    var inputStorage: Int { input.storageCapacity }

    /// Whether reading has to pause.
    func isFull(isWritable: @autoclosure () -> Bool) -> Bool {
        input.readableBytes > Self.inputLimit && (phase != .head || !isWritable())
    }

    /// Consumes the next part of the input.
    /// - Parameters:
    ///   - isWritable: Whether the client reads. Pipelined requests wait until it has read earlier responses.
    ///   - acceptsBody: Whether body bytes may be passed on.
    mutating func nextStep(isWritable: @autoclosure () -> Bool, acceptsBody: @autoclosure () -> Bool) -> Step {
        switch phase {
        case .head:
            return hasInput && isWritable() ? .parseHead : .wait
        case .body:
            return acceptsBody() ? decodeBody() : .wait
        case .drainingBody:
            return drainBody()
        case .tunnel:
            guard acceptsBody() else { return .wait }
            if hasInput, let bytes = input.readSlice(length: input.readableBytes) {
                return .body(bytes)
            }
            guard isInputClosed else { return .wait }
            isInputClosed = false
            return .bodyEnd(nil)
        case .awaitingResponse, .lingering, .closed:
            return .wait
        }
    }

    private mutating func decodeBody() -> Step {
        do throws(WireError) {
            switch try decoder.next(&input) {
            case .data(let bytes): return .body(bytes)
            case .needMoreData: return .wait
            case .end:
                phase = .awaitingResponse
                return .bodyEnd(decoder.takeTrailers())
            }
        } catch {
            rejected()
            return .malformedBody(error)
        }
    }

    private mutating func drainBody() -> Step {
        do throws(WireError) {
            switch try decoder.next(&input) {
            case .data: return .discarded
            case .needMoreData: return .wait
            case .end:
                guard keepsAlive else { return .linger }
                phase = .head
                return .nextRequest
            }
        } catch {
            rejected()
            return .linger
        }
    }

    /// Parses a request head.
    /// - Returns: Whether it is complete.
    mutating func parseHead(into head: inout RequestHead) throws(WireError) -> Bool {
        assert(phase == .head)
        return try parser.parse(&input, into: &head)
    }

    /// A complete head was parsed.
    mutating func requestReceived(_ head: borrowing RequestHead, framing: BodyFraming) throws(WireError) {
        assert(phase == .head)
        let options = ConnectionOptions.read(head)
        guard !options.isOverLimit else { throw .connectionOptions }
        keepsAlive = options.persists(minorVersion: head.minorVersion) && !closesAfterResponse
        isHeadWritten = false
        isHTTP1_0 = head.minorVersion == 0
        bodyFraming = framing
        decoder = BodyDecoder(framing)
        phase = framing == .none ? .awaitingResponse : .body
    }

    /// The input is malformed: the bytes after it cannot be interpreted.
    mutating func rejected() {
        input = ByteBuffer()
        keepsAlive = false
    }

    /// The head was not completed in time.
    mutating func requestHeadTimedOut() { keepsAlive = false }

    /// The client ended its side of a tunnel.
    mutating func inputClosed() {
        assert(phase == .tunnel)
        isInputClosed = true
        hasInputEnded = true
    }

    // MARK: - Response

    /// The upstream's response begins.
    /// - Returns: The framing of the response to the client.
    mutating func responseStarted(_ framing: BodyFraming) -> BodyFraming {
        isHeadWritten = true
        // A response before the end of the request leaves the remaining body unread.
        if phase == .body { keepsAlive = false }
        guard framing == .untilClose || framing == .chunked else { return framing }
        guard isHTTP1_0 else { return .chunked }
        keepsAlive = false
        return .untilClose
    }

    /// A local response begins.
    /// - Parameters:
    ///   - expectsContinue: Whether the client sends its body only if it is asked to.
    ///   - isInvalid: Whether the request is malformed, or for an unsupported tunnel, whatever the status is.
    mutating func localResponseStarted(status: Int, expectsContinue: Bool, isInvalid: Bool = false) {
        isHeadWritten = true
        switch status {
        // After a malformed or incomplete request, or one for an unsupported tunnel, further bytes cannot be
        // interpreted.
        case 400, 408, 501: keepsAlive = false
        case _ where isInvalid: keepsAlive = false
        default:
            guard phase == .body else { return }
            guard case .length(let length) = bodyFraming, length <= Self.discardLimit, !expectsContinue else {
                keepsAlive = false
                return
            }
        }
    }

    /// The upgrade is accepted: all further bytes belong to the tunnel.
    mutating func upgraded() {
        keepsAlive = false
        phase = .tunnel
    }

    /// The response is written.
    mutating func responseCompleted() -> ResponseCompletedAction {
        guard phase != .closed else { return .alreadyClosed }
        guard keepsAlive else { return .linger }
        guard phase == .body || phase == .drainingBody else {
            phase = .head
            return .next
        }
        phase = .drainingBody
        return .drainBody
    }

    // MARK: - Ends

    /// The connection is to end. If the head of a response is written already, the client does not know it, and the next
    /// response is the last.
    mutating func drain() {
        if !isHeadWritten { keepsAlive = false }
        closesAfterResponse = true
    }

    /// The last response is written.
    /// - Returns: `nil` if the connection is closed already.
    mutating func linger() -> LingerAction? {
        guard phase != .closed else { return nil }
        input = ByteBuffer()
        defer { phase = .lingering }
        return phase == .tunnel ? .endTunnel : .closeOutput
    }

    /// Everything written is sent.
    mutating func responseSent() { isAllSent = true }

    /// Whether closing the connection now would cut off a response.
    /// - Parameter isActive: Whether an exchange is in progress.
    func isResponseIncomplete(isActive: Bool) -> Bool {
        phase == .lingering ? !isAllSent : isActive
    }

    /// Whether the connection lingers, and part of the last response is not sent.
    var isLingeringUnsent: Bool { phase == .lingering && !isAllSent }

    /// Whether the connection lingers after everything has been sent, including the end of output.
    var hasLingered: Bool { phase == .lingering && isAllSent }

    /// - Returns: `false` if the connection is closed already.
    @discardableResult
    mutating func close() -> Bool {
        input = ByteBuffer()
        defer { phase = .closed }
        return phase != .closed
    }
}
