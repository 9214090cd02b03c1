import CloakroomCore
import CloakroomWire
public import NIOCore
import NIOTLS

/// TLS of the admin listener, provided by the part that owns the certificates.
public protocol AdminTLS: Sendable {
    /// Creates the handler of one connection.
    func makeHandler() throws -> any ChannelHandler
    /// Whether the client of a connection presented a certificate that was verified. Called on the event loop of the
    /// connection.
    func hasClientCertificate(_ channel: any Channel) -> Bool
    /// Reloads changed files until it is cancelled.
    func watch() async
}

/// A connection to the admin listener, in HTTP/1.1. One request at a time is served; pipelined ones wait.
///
/// Closes a connection whose client is too slow or sends too much: the head of a request is complete within 5 s of its
/// first byte, that of the first request within 5 s of the start of the connection; the response begins within 30 s of
/// the head, and the client takes what is written within 30 s. A request has at most 32 KiB, and its head 16 KiB.
final class AdminConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    static let tlsHandlerName = "tls"
    static let timeout = TimeAmount.seconds(30)
    static let headTimeout = TimeAmount.seconds(5)
    /// Longer than scrape intervals, so that scrapers can keep their connection.
    static let idleTimeout = TimeAmount.seconds(90)
    /// The maximum size of a request in bytes. The body of the only request that has one is at most 1 KiB.
    static let requestSize = 32 << 10
    /// Output is written in pieces of this size, each of which is progress when the client takes it.
    private static let pieceSize = 64 << 10
    /// The maximum number of bytes that are received and dropped after the last response.
    private static let lingerSize = 256 << 10

    private enum Phase {
        /// No byte of the next request has been received.
        case idle
        case head
        case body
        /// The request is complete, and its response is not completely sent. Further input waits.
        case response
        case closed
    }

    private let limit: AdminConnectionLimit
    private let peer: String
    private let onRejection: (RejectionLog.Reason) -> Void
    private let respond: (AdminRequest) -> EventLoopFuture<AdminResponse>
    private var context: ChannelHandlerContext?
    private var phase = Phase.head
    /// Input that is not parsed.
    private var input = ByteBuffer()
    private var parser = HeadParser(limits: HeadLimits(head: 16 << 10))
    private var head = RequestHead()
    private var decoder = BodyDecoder(.none)
    private var body: [UInt8] = []
    /// The number of bytes received since the last response began, and of those that waited then.
    private var received = 0
    /// Whether the connection ends after the response to the current request.
    private var isLast = false
    /// Whether the client has ended its side. Requests that were complete before are served.
    private var isInputClosed = false
    private var deadline: Scheduled<Void>?
    private var id: ObjectIdentifier { ObjectIdentifier(self) }

    /// - Parameters:
    ///   - peer: The client's address, without port; empty if unknown.
    ///   - onRejection: Called with the reason if a request is rejected before it is served, or another connection is
    ///     closed for this one.
    ///   - respond: Serves a request; the future is one of the connection's event loop. It is not complete when it is
    ///     returned: pipelined requests would be served recursively.
    init(
        _ limit: AdminConnectionLimit, peer: String, onRejection: @escaping (RejectionLog.Reason) -> Void,
        respond: @escaping (AdminRequest) -> EventLoopFuture<AdminResponse>
    ) {
        self.limit = limit
        self.peer = peer
        self.onRejection = onRejection
        self.respond = respond
    }

    /// The storage of requests that are not served, in bytes.
    var inputStorage: Int { input.storageCapacity + body.count }

    // MARK: - Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        if limit.open(handler, peer: peer, closed: context.channel.closeFuture) { onRejection(.connections) }
        cut(in: Self.headTimeout)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        release()
        self.context = nil
        deadline?.cancel()
        limit.close(id)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = Self.unwrapInboundIn(data)
        received += bytes.readableBytes
        guard received <= (phase == .closed ? Self.lingerSize : Self.requestSize) else { return cut() }
        guard phase != .closed else { return }
        // While a response is sent, only what the client takes is progress.
        if phase != .response { limit.update(id) }
        if phase == .idle {
            phase = .head
            cut(in: Self.headTimeout)
        }
        input.writeBuffer(&bytes)
        read()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed? = event as? ChannelEvent {
            isInputClosed = true
            if phase != .response { close() }
        }
        // TLS is below this handler: until now, its handshake was no progress.
        if case TLSUserEvent.handshakeCompleted? = event as? TLSUserEvent { limit.update(id) }
        context.fireUserInboundEventTriggered(event)
    }

    // MARK: - Requests

    /// Parses the input up to the end of a request, and serves it.
    private func read() {
        defer { input.releaseReadStorage() }
        do throws(WireError) {
            if phase == .head {
                guard try parser.parse(&input, into: &head) else { return }
                try headReceived()
            }
            while phase == .body {
                switch try decoder.next(&input) {
                case .data(let bytes): body += bytes.readableBytesView
                case .needMoreData: return
                case .end: serve()
                }
            }
        } catch {
            // The following bytes cannot be interpreted.
            isLast = true
            phase = .response
            write(.problem(.badRequest), isToHead: false)
        }
    }

    /// Rejects a request whose host is ambiguous: several `Host` fields (RFC 9112 §3.2), or a request target that is not
    /// a path and can thereby name another host than `Host` does (§3.2.2).
    private func headReceived() throws(WireError) {
        cut(in: Self.timeout)
        let target = head.bytes.getInteger(at: head.bytes.readerIndex + head.target.start, as: UInt8.self)
        guard target == UInt8(ascii: "/"), head.fields.count(where: { $0.name == .host }) <= 1 else {
            onRejection(.host)
            throw .host
        }
        // Paths, hosts and tokens are ASCII. A comparison of some other texts costs the square of their length.
        guard head.bytes.readableBytesView.allSatisfy({ $0 < 0x80 }) else { throw .fieldValue }
        decoder = BodyDecoder(try BodyFraming.of(head))
        let options = ConnectionOptions.read(head)
        guard !options.isOverLimit else { throw .connectionOptions }
        if options.hasClose || head.minorVersion == 0 { isLast = true }
        phase = .body
    }

    private func serve() {
        phase = .response
        // Not at the end of the head: a client that withholds its body waits for no response.
        limit.update(id) { $0.isServed = true }
        let request = AdminRequest(head: head, body: body, peer: peer)
        head.reset()
        body = []
        respond(request).assumeIsolated().whenComplete { [self] result in
            switch result {
            case .success(let response): write(response, isToHead: request.method == "HEAD")
            case .failure: cut()
            }
        }
    }

    // MARK: - Responses

    private func write(_ response: AdminResponse, isToHead: Bool) {
        guard phase == .response, let context else { return }
        received = input.readableBytes
        if isInputClosed, received == 0 { isLast = true }
        var output = response.encoded(isToHead: isToHead, isLast: isLast)
        limit.update(id) { [size = output.readableBytes] connection in
            connection.isServed = false
            connection.output = size
        }
        cut(in: Self.timeout)
        while let piece = output.readSlice(length: min(output.readableBytes, Self.pieceSize)),
            piece.readableBytes > 0
        {
            let written = context.eventLoop.makePromise(of: Void.self)
            written.futureResult.assumeIsolated().whenSuccess { [self, isEnd = output.readableBytes == 0] in
                // A part of a response keeps all of it in memory.
                limit.update(id) { if isEnd { $0.output = 0 } }
                if isEnd { responseSent() }
            }
            // Flushed one by one: TLS would report the success of all pieces at once.
            context.writeAndFlush(Self.wrapOutboundOut(piece), promise: written)
        }
    }

    private func responseSent() {
        guard phase == .response else { return }
        guard !isLast else { return linger() }
        phase = input.readableBytes > 0 ? .head : .idle
        cut(in: phase == .head ? Self.headTimeout : Self.idleTimeout)
        if phase == .head { read() }
        // What remains is no complete request.
        if isInputClosed, phase != .response { close() }
    }

    // MARK: - Ends

    /// Ends the connection, after the response to a request whose head is complete.
    func finish() {
        isLast = true
        if phase == .idle || phase == .head { close() }
    }

    /// Ends the output, and waits for the client to end its side: if the connection were closed with unread input, it
    /// would be reset, and the client could lose the response (RFC 9112 §9.6).
    private func linger() {
        release()
        context?.close(mode: .output, promise: nil)
        cut(in: Self.headTimeout)
    }

    private func close() {
        release()
        context?.close(promise: nil)
    }

    /// Closes the connection at once. Unsent output is lost.
    func cut() {
        guard let context else { return }
        release()
        // `close` on the context of a handler starts below it: the TLS handler would wait for the client.
        let tls = try? context.pipeline.syncOperations.context(name: Self.tlsHandlerName)
        (tls ?? context).close(promise: nil)
    }

    private func release() {
        phase = .closed
        input = ByteBuffer()
        body = []
    }

    /// Closes the connection after a time, unless this is called again.
    private func cut(in time: TimeAmount) {
        deadline?.cancel()
        deadline = context?.eventLoop.assumeIsolated().scheduleTask(in: time) { [self] in cut() }
    }
}
