import CloakroomWire
import NIOCore
import NIOEmbedded
import NIOSSL
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("Storage of connections, for reads of every size")
struct ConnectionStorageTests {
    @Test("Rule 77: until the protocol is known a connection keeps the preface of HTTP/2 at most, in all splits")
    func negotiation() throws {
        let config = try GatewaySetup().makeConfig()
        let stream = PeerStream(start: Array(HTTP2WireFrame.preface.prefix(20))) { _ in HTTP2WireFrame.preface }
        try StorageProperty.check(stream, bound: 64, reads: 40) {
            let owner = try EmbeddedConnection(config)
            try owner.connect()
            let handler = ProtocolNegotiationHandler(owner.info, allowsHTTP2: true)
            try owner.channel.pipeline.syncOperations.addHandler(handler)
            return { [owner] read in
                owner.channel.pipeline.fireChannelRead(read)
                return handler.receivedStorage
            }
        }
    }

    @Test(
        "Rule 77: a handshake for which a client may have a certificate ends after 32 KiB, wherever its reads end",
        arguments: [1_000, 4_096])
    func handshake(read: Int) throws {
        let passed = PassedBytes()
        let channel = EmbeddedChannel(handlers: [HandshakeInput(), passed])
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        while channel.isActive, passed.count < 2 * HandshakeInput.limit {
            try channel.writeInbound(ByteBuffer(repeating: 0, count: read))
        }
        expect(!channel.isActive)
        expect(passed.count, equals: HandshakeInput.limit)
    }

    @Test("A request that is in the same read as the end of a long handshake is no part of it")
    func requestAfterHandshake() throws {
        let input = HandshakeInput()
        let passed = PassedBytes { if $0 > 20_000 { input.isComplete = true } }
        let channel = EmbeddedChannel(handlers: [input, passed])
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        for count in [20_000, 60_000, 1] { try channel.writeInbound(ByteBuffer(repeating: 0, count: count)) }
        expect(channel.isActive && passed.count == 80_001)
    }

    private final class PassedBytes: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private(set) var count = 0
        private let onRead: (Int) -> Void

        /// - Parameter onRead: Called with the number of bytes so far.
        init(onRead: @escaping (Int) -> Void = { _ in }) { self.onRead = onRead }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            count += Self.unwrapInboundIn(data).readableBytes
            onRead(count)
        }
    }

    @Test("Rule 77: an HTTP/2 connection keeps storage for an unread frame, in all splits")
    func http2() throws {
        let start = HTTP2WireFrame.preface + HTTP2WireFrame.settings().bytes
        let config = try GatewaySetup().makeConfig()
        // Field lines of 1,000 bytes that are not added to the table, after those of GET /nowhere.
        var block: [UInt8] = [0x82, 0x86, 0x04, 8] + Array("/nowhere".utf8) + [0x01, 1, 0x61]
        for _ in 0..<10 { block += [0x00, 1, 0x78, 97] + [UInt8](repeating: 0x61, count: 97) }
        let stream = PeerStream(start: start) { index in
            HTTP2WireFrame(type: 1, flags: 5, stream: UInt32(2 * index + 1), payload: block).bytes
        }
        try StorageProperty.check(stream) {
            let owner = try EmbeddedConnection(config)
            let channel = owner.channel
            let handler = try owner.http2()
            return { [owner] read in
                try owner.channel.writeInbound(read)
                channel.embeddedEventLoop.run()
                while try channel.readOutbound(as: ByteBuffer.self) != nil {}
                expect(channel.isActive)
                return handler.inputStorage
            }
        }
    }

    @Test("Rule 77: objects that an HTTP/2 connection keeps for further requests keep no large heads")
    func recycledHeads() throws {
        let owner = try EmbeddedConnection()
        let handler = try owner.http2()
        // A field line of 3,000 bytes that is inserted into the table, and then used four times by each request.
        let start: [UInt8] = [0x82, 0x86, 0x04, 8] + Array("/nowhere".utf8) + [0x01, 1, 0x61]
        let insertion: [UInt8] = [0x40, 1, 0x78, 0x7f, 0xb9, 0x16] + [UInt8](repeating: 0x61, count: 3_000)
        var bytes = HTTP2WireFrame.preface + HTTP2WireFrame.settings().bytes
        for index in 0..<90 {
            let block = start + (index == 0 ? insertion : [0xbe, 0xbe, 0xbe, 0xbe])
            bytes += HTTP2WireFrame(type: 1, flags: 5, stream: UInt32(2 * index + 1), payload: block).bytes
        }
        owner.channel.pipeline.fireChannelRead(ByteBuffer(bytes: bytes))
        let heads = handler.streams.compactMap { $0?.exchange?.head.bytes.storageCapacity }
        expect(heads.count == 90 && heads.max() ?? 0 > 12_000)
        owner.channel.pipeline.fireChannelReadComplete()
        owner.channel.embeddedEventLoop.run()
        let recycled = handler.recycledStreams.compactMap { $0.exchange?.head.bytes.storageCapacity }
        expect(recycled.count, equals: 32)
        expect(recycled.allSatisfy { $0 <= 4_096 })
    }

    /// A server and a client of TLS without sockets, whose handshake is complete.
    private final class TLSPair {
        let server = EmbeddedChannel()
        let socket = StalledSocket()
        private let client = EmbeddedChannel()

        init(_ config: ConfigSnapshot, _ tls: TLSListener, allowsHTTP2: Bool = false) throws {
            let context = LoopContext(eventLoop: server.embeddedEventLoop, config: config, loopCount: 1)
            for channel in [server, client] {
                try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
            }
            try server.pipeline.syncOperations.addHandler(socket)
            try DownstreamPipeline.add(
                to: server, context: context, tls: try tls.makeHandler(), limitsHandshake: true,
                allowsHTTP2: allowsHTTP2, listener: 0, sourceAddress: nil, load: nil)
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.certificateVerification = .none
            if allowsHTTP2 { configuration.applicationProtocols = ["h2"] }
            try client.pipeline.syncOperations.addHandler(
                try NIOSSLClientHandler(context: try NIOSSLContext(configuration: configuration), serverHostname: nil))
            try exchange()
        }

        /// Sends the client's bytes.
        func send(_ bytes: ByteBuffer) throws {
            try client.writeOutbound(bytes)
            try exchange()
        }

        /// Sends the client's bytes, of a client that reads nothing after them.
        func sendLast(_ bytes: [UInt8]) throws {
            try client.writeOutbound(ByteBuffer(bytes: bytes))
            while let bytes = try client.readOutbound(as: ByteBuffer.self) { try server.writeInbound(bytes) }
        }

        private func exchange() throws {
            var hasMore = true
            while hasMore {
                hasMore = false
                while let bytes = try client.readOutbound(as: ByteBuffer.self) {
                    try server.writeInbound(bytes)
                    hasMore = true
                }
                while let bytes = try server.readOutbound(as: ByteBuffer.self) {
                    try client.writeInbound(bytes)
                    hasMore = true
                }
            }
        }

        deinit {
            ChannelCut.closeBelowTLS(server)
            try? client.pipeline.syncOperations.context(handlerType: NIOSSLClientHandler.self).close(promise: nil)
            for channel in [server, client] { _ = try? channel.finish(acceptAlreadyClosed: true) }
        }
    }

    /// Stands for the socket of a client that stops reading.
    private final class StalledSocket: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer
        var isStalled = false
        private(set) var unread = 0
        private(set) var storage = 0

        func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
            if isStalled {
                let bytes = Self.unwrapOutboundIn(data)
                unread += bytes.readableBytes
                storage += bytes.storageCapacity
            }
            context.write(data, promise: promise)
        }

        func flush(context: ChannelHandlerContext) {
            if !isStalled { context.flush() }
        }
    }

    @Test("Rule 77: small responses over TLS to a client that does not read keep twice their bytes, in all splits")
    func smallFlushes() throws {
        let files = try CertificateFixture()
        let pair = try files.server("server", names: ["localhost"])
        let tls = try TLSListener(pair.listener, allowsHTTP2: false)
        let config = try GatewaySetup().makeConfig()
        let stream = PeerStream("GET /nowhere HTTP/1.1\r\nHost: a\r\nX: \(String(repeating: "a", count: 960))\r\n\r\n")
        // The flushes before the first check, and session tickets.
        try StorageProperty.check(stream, bound: (TLSOutput.uncheckedFlushes + 2) * 16_384, reads: 100) {
            let connection = try TLSPair(config, tls)
            connection.socket.isStalled = true
            return { read in
                try connection.send(read)
                expect(connection.server.isActive)
                return max(0, connection.socket.storage - 2 * connection.socket.unread)
            }
        }
    }

    @Test("Rule 77: an HTTP/2 connection that a flood ends is not kept for the close_notify of its client")
    func floodOverTLS() throws {
        let files = try CertificateFixture()
        let pair = try files.server("server", names: ["localhost"])
        let tls = try TLSListener(pair.listener, allowsHTTP2: true)
        let connection = try TLSPair(try GatewaySetup().makeConfig(), tls, allowsHTTP2: true)
        var bytes = HTTP2WireFrame.preface + HTTP2WireFrame.settings().bytes
        bytes += HTTP2WireFrame(type: 1, flags: 0, stream: 1, payload: []).bytes
        for _ in 0..<30 { bytes += HTTP2WireFrame(type: 9, flags: 0, stream: 1, payload: []).bytes }
        try connection.sendLast(bytes)
        expect(!connection.server.isActive)
    }

    @Test("Rule 80: the connections on which the most bytes wait end first")
    func largestFirst() throws {
        let loop = EmbeddedEventLoop()
        let context = LoopContext(eventLoop: loop, config: try GatewaySetup().makeConfig(), loopCount: 1)
        context.start()
        defer { context.stop() }
        var ended: [Int] = []
        for megabytes in [40, 60, 50] {
            let channel = EmbeddedChannel(loop: loop)
            try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
            try DownstreamPipeline.addHTTP2(
                DownstreamConnectionInfo(channel: channel, context: context, isTLS: false, listener: 0))
            try channel.pipeline.syncOperations.handler(type: HTTP2DownstreamHandler.self)
                .addOutbound(megabytes << 20)
            channel.closeFuture.assumeIsolated().whenComplete { _ in ended.append(megabytes) }
        }
        context.onTick()
        loop.run()
        expect(ended, equals: [60, 50, 40])
    }

    @Test("Rule 77: a health check keeps at most its limit and one read of a response, and nothing after its result")
    func healthCheck() throws {
        let config = try GatewaySetup().makeConfig()
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: \(String(repeating: "a", count: 1_000))\r\n\r\n"
        try StorageProperty.check(PeerStream(interim), bound: 4 * (HealthCheck.readLimit + 65_536)) {
            let owner = try EmbeddedConnection(config)
            let channel = owner.channel
            let done = channel.embeddedEventLoop.makePromise(of: HealthCheck.Outcome.self)
            let handler = HealthCheck.Handler(request: Array("GET / HTTP/1.1\r\n\r\n".utf8), done: done)
            try channel.pipeline.syncOperations.addHandler(handler)
            var isDone = false
            done.futureResult.assumeIsolated().whenComplete { _ in isDone = true }
            return { [owner] read in
                owner.channel.pipeline.fireChannelRead(read)
                if isDone { expect(handler.storage, equals: 0) }
                return handler.storage
            }
        }
    }
}
