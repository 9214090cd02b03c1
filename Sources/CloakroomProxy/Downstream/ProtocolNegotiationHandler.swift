import CloakroomCore
import CloakroomTelemetry
import NIOCore
import NIOSSL
import NIOTLS

/// Determines the HTTP version of a client connection and replaces itself with the matching handler: with TLS by ALPN
/// (RFC 7301), without TLS by the first bytes (RFC 9113 §3.3).
final class ProtocolNegotiationHandler: ChannelInboundHandler, RemovableChannelHandler, LoopRegistered {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private var client: DownstreamConnectionInfo
    private let allowsHTTP2: Bool
    private let input: HandshakeInput?
    private var handlerContext: ChannelHandlerContext?
    private var isStarted = false
    private var received = ByteBuffer()
    /// Storage of the received bytes, in bytes.
    var receivedStorage: Int { received.storageCapacity }
    private var isHandshakeCounted = false
    private var start = UInt64.max
    var registryIndex = -1
    private(set) var deadline = UInt64.max
    var isDownstream: Bool { true }
    var idle: (since: UInt64, load: ClientLoad?)? { (start, client.load) }

    init(_ client: DownstreamConnectionInfo, input: HandshakeInput? = nil, allowsHTTP2: Bool) {
        self.client = client
        self.input = input
        self.allowsHTTP2 = allowsHTTP2
    }

    /// The HTTP/2 connection preface (RFC 9113 §3.4).
    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    func handlerAdded(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = handlerContext
        if handlerContext.channel.isActive { begin() }
    }

    func handlerRemoved(context handlerContext: ChannelHandlerContext) {
        self.handlerContext = nil
        client.context.remove(self)
    }

    func channelActive(context handlerContext: ChannelHandlerContext) {
        begin()
        handlerContext.fireChannelActive()
    }

    private func begin() {
        guard !isStarted else { return }
        isStarted = true
        let context = client.context
        // A TLS handshake must start at once; the first request of an unencrypted connection gets the keep-alive
        // timeout.
        let timeouts = context.snapshot.timeouts
        start = context.updateTime()
        deadline = start &+ (client.isTLS ? timeouts.header : timeouts.keepAlive)
        context.add(self)
        // It was accepted just before draining began.
        if context.isDraining { drain() }
    }

    func userInboundEventTriggered(context handlerContext: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted(let negotiated)? = event as? TLSUserEvent {
            input?.isComplete = true
            let tls = try? handlerContext.pipeline.syncOperations.handler(type: NIOSSLServerHandler.self)
            client.tlsVersion = tls?.tlsVersion == .tlsv13 ? .tls13 : .tls12
            if let certificate = tls?.peerCertificate {
                // A resumed TLS session was verified when it was created; the certificate may have expired since.
                let now = client.context.wallNanoseconds(at: client.context.updateTime()) / 1_000_000_000
                guard !ClientCertificate.isExpired(certificate, at: now) else {
                    countHandshake(.expired)
                    return closeNow()
                }
                client.certificateSubject = ClientCertificate.subject(of: certificate)
            }
            isHandshakeCounted = true
            metrics.handshakes[client.tlsVersion ?? .tls12]?.increment()
            select(isHTTP2: allowsHTTP2 && negotiated == "h2")
        }
        handlerContext.fireUserInboundEventTriggered(event)
    }

    func channelRead(context handlerContext: ChannelHandlerContext, data: NIOAny) {
        guard !client.isTLS else { return handlerContext.fireChannelRead(data) }
        let now = client.context.updateTime()
        var bytes = unwrapInboundIn(data)
        received.writeBuffer(&bytes)
        let count = min(received.readableBytes, Self.preface.count)
        guard received.readableBytesView.prefix(count).elementsEqual(Self.preface.prefix(count)) else {
            return select(isHTTP2: false)
        }
        if count == Self.preface.count { return select(isHTTP2: true) }
        deadline = min(deadline, now &+ client.context.snapshot.timeouts.header)
    }

    func errorCaught(context handlerContext: ChannelHandlerContext, error: any Error) {
        // A failed handshake or a reset, caused by the peer: the connection is unusable.
        countHandshake(error is IOError || !handlerContext.channel.isActive ? .aborted : .failed)
        handlerContext.close(promise: nil)
    }

    func channelInactive(context handlerContext: ChannelHandlerContext) {
        countHandshake(.aborted)
        client.context.remove(self)
        handlerContext.fireChannelInactive()
    }

    private func select(isHTTP2: Bool) {
        guard let handlerContext else { return }
        do {
            if isHTTP2 {
                try DownstreamPipeline.addHTTP2(client)
            } else {
                try client.channel.pipeline.syncOperations.addHandler(HTTP1DownstreamHandler(client))
            }
        } catch {
            return handlerContext.close(promise: nil)
        }
        if received.readableBytes > 0 {
            let bytes = received
            received = ByteBuffer()
            handlerContext.fireChannelRead(wrapInboundOut(bytes))
            handlerContext.fireChannelReadComplete()
        }
        handlerContext.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    // MARK: - Deadlines and drain

    func deadlineExpired(now: UInt64) {
        countHandshake(.timeout)
        closeNow()
    }

    /// Counts a handshake that was not completed, once for a connection.
    private func countHandshake(_ failure: TLSHandshakeFailure) {
        guard client.isTLS, !isHandshakeCounted else { return }
        isHandshakeCounted = true
        metrics.failedHandshakes[failure]?.increment()
    }

    private var metrics: ListenerMetrics { client.context.snapshot.config.telemetry.metrics.listeners }

    var usesTLS: Bool { client.isTLS }

    /// No request has been received yet, but the client may have sent one.
    func drain() {
        deadline = min(deadline, client.context.now &+ client.context.requestGrace)
        if client.context.requestGrace == 0 { closeNow() }
    }

    func closeNow() { handlerContext?.close(promise: nil) }

    func endIdle() {
        countHandshake(.timeout)
        ChannelCut.closeBelowTLS(client.channel)
    }
}
