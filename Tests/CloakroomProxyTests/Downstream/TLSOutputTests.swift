import CloakroomCore
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import TestSupport
import Testing

@testable import CloakroomProxy

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

@Suite("Memory of TLS connections after large output", .serialized, .timeLimit(.minutes(1)))
struct TLSOutputTests {
    private static let body = String(
        String(repeating: "0123456789abcdefghijklmnopqrstuvwxyz", count: 2_845).prefix(102_400))
    private static let withLength = "HTTP/1.1 200 OK\r\nContent-Length: 102400\r\n\r\n" + body
    private static let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n19000\r\n" + body + "\r\n0\r\n\r\n"

    @Test(
        "After a response of 100 KiB each connection holds the 16 KiB of a new one",
        arguments: [withLength, chunked], ["http/1.1", "h2"])
    func large(response: String, version: String) async throws {
        try await Self.run(response) { server in
            for index in 0..<20 {
                let client = try await Client.connect(server.port, version)
                try await client.get(version, size: Self.body.utf8.count)
                expect(client.body(version).contains(Self.body))
                #expect(try await server.storage(index) <= 16_384)
            }
        }
    }

    @Test("A connection with small responses only has no handler for large output", arguments: ["http/1.1", "h2"])
    func small(version: String) async throws {
        try await Self.run(Reply.ok) { server in
            let client = try await Client.connect(server.port, version)
            try await client.get(version, size: 2)
            let isAdded = try await server.on(0) { channel in
                (try? channel.pipeline.syncOperations.handler(type: TLSOutput.self)) != nil
            }
            expect(!isAdded)
        }
    }

    @Test("When the connection is quiet, its buffer occupies no whole page, and the next response is correct")
    func quiet() async throws {
        try await Self.run(Self.withLength) { server in
            let client = try await Client.connect(server.port, "http/1.1")
            for _ in 0..<2 {
                try await client.get("http/1.1", size: Self.body.utf8.count)
                expect(client.body("http/1.1").contains(Self.body))
                #expect(try await server.residentPages(0, of: Server.output) > 0)
                try await server.advance(.seconds(4))
                try await expect(server.residentPages(0, of: Server.output), equals: 0)
            }
        }
    }

    @Test(
        "A connection holds no page of the memory for its input that only others have used",
        arguments: ["http/1.1", "h2"])
    func input(version: String) async throws {
        try await Self.run(Reply.ok) { server in
            let spacers = try await server.soilHeap()
            let client = try await Client.connect(server.port, version)
            try await eventually("the connection") { server.channels.withLock { !$0.isEmpty } }
            #expect(try await server.residentPages(0, of: Server.input) > 1)
            try await client.get(version, size: 2)
            #expect(try await server.residentPages(0, of: Server.input) <= 1)
            expect(spacers.count, equals: 64)
        }
    }

    @Test("Pages are returned from an index on, and nothing before it or after the storage")
    func pages() {
        let bytes = ByteBuffer(repeating: 7, count: 65_536)
        bytes.returnPages(from: 5_000)
        expect(bytes.readableBytesView.prefix(5_000).allSatisfy { $0 == 7 })
        let returned = bytes.readableBytesView.count { $0 == 0 }
        expect(returned > 0 && returned % sysconf(Int32(_SC_PAGESIZE)) == 0)
        ByteBuffer().returnPages(from: 0)
    }

    @Test("All parts of a large output are sent with one flush, and closing sends what is held")
    func flushes() async throws {
        let directory = try CertificateFixture()
        let tls = try Self.listener(directory)
        let counter = Counter()
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let context = LoopContext(
                        eventLoop: channel.eventLoop, config: try GatewaySetup([]).makeConfig(), loopCount: 1)
                    let client = DownstreamConnectionInfo(
                        channel: channel, context: context, isTLS: true, listener: 0, output: TLSOutput())
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(FlushCounter(counter))
                    try pipeline.addHandler(try tls.makeHandler())
                    try pipeline.addHandler(Writer(client, counter))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let client = try await Client.connect(server.localAddress?.port ?? 0, "http/1.1")
        try await client.channel.writeAndFlush(ByteBuffer(string: "flush")).get()
        try await eventually("the output") { client.received.readableBytes == 100_005 }
        // The first part and 100,000 bytes in parts, and the flush after them.
        expect(counter.counts.withLock { $0.flushes }, equals: 1)
        expect(counter.counts.withLock { $0.writes }, equals: 8)
        try await client.channel.writeAndFlush(ByteBuffer(string: "close")).get()
        try await eventually("the output") { client.received.readableBytes == 200_010 }
        try await server.close()
    }

    // MARK: - Support

    private static func listener(_ directory: CertificateFixture) throws -> TLSListener {
        let pair = try directory.server("server", names: ["localhost"])
        return try TLSListener(pair.listener, allowsHTTP2: true)
    }

    /// Runs the channel pipeline of a gateway with a TLS listener, whose connections are reachable.
    private static func run(_ response: String, _ body: (Server) async throws -> Void) async throws {
        let directory = try CertificateFixture()
        let tls = try listener(directory)
        let script: [ScriptedUpstream.Step] = [.request, .send(response), .again]
        let scripts = Array(repeating: script, count: 20)
        try await ScriptedUpstream.run(scripts) { upstreamPort, _ in
            let config = try GatewaySetup(script).with(\.upstreamPort, upstreamPort).makeConfig()
            let time = SteppedTime()
            config.activateTargets(now: LoopTime.stepped(time).now())
            let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
            let context = try await eventLoop.submit {
                NIOLoopBound(
                    LoopContext(eventLoop: eventLoop, config: config, loopCount: 1, time: .stepped(time)),
                    eventLoop: eventLoop)
            }.get()
            let server = Server(context: context, time: time)
            let listening = try await ServerBootstrap(group: eventLoop)
                .childChannelOption(.maxMessagesPerRead, value: 1)
                .childChannelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        server.channels.withLock { $0.append(channel) }
                        try DownstreamPipeline.add(
                            to: channel, context: context.value, tls: try tls.makeHandler(), allowsHTTP2: true,
                            listener: 0, sourceAddress: nil, load: nil)
                    }
                }
                .bind(host: "127.0.0.1", port: 0).get()
            server.ports.withLock { $0 = listening.localAddress?.port ?? 0 }
            try await stopping {
                try? await listening.close()
                try? await eventLoop.submit {
                    context.value.closeAll()
                    context.value.stop()
                }.get()
            } after: {
                try await body(server)
            }
        }
    }

    private final class Server: Sendable {
        let channels = Mutex<[any Channel]>([])
        let ports = Mutex(0)
        private let context: NIOLoopBound<LoopContext>
        private let time: SteppedTime

        init(context: NIOLoopBound<LoopContext>, time: SteppedTime) {
            self.context = context
            self.time = time
        }

        var port: Int { ports.withLock { $0 } }

        func on<R: Sendable>(_ index: Int, _ body: @escaping @Sendable (any Channel) throws -> R) async throws -> R {
            let channel = channels.withLock { $0[index] }
            return try await channel.eventLoop.submit { try body(channel) }.get()
        }

        func advance(_ duration: Duration) async throws {
            time.advance(by: duration)
            try await context.eventLoop.submit { [context] in context.value.onTick() }.get()
        }

        /// Size of the buffer of the TLS handler.
        func storage(_ index: Int) async throws -> Int {
            try await on(index) { try Self.buffer(of: $0, Self.output).storageCapacity }
        }

        /// Frees memory on the event loop that was used, in parts of the size of the TLS handler's input.
        /// - Returns: What keeps the allocator from combining the parts.
        func soilHeap() async throws -> [ByteBuffer] {
            try await context.eventLoop.submit {
                (0..<64).map { _ in (ByteBuffer(repeating: 7, count: 32_768), ByteBuffer(repeating: 7, count: 64)) }
                    .map(\.1)
            }.get()
        }

        /// Number of pages that contain only a buffer of the TLS handler and are resident.
        func residentPages(_ index: Int, of find: @escaping Find) async throws -> Int {
            try await on(index) { channel in
                let page = UInt(sysconf(Int32(_SC_PAGESIZE)))
                return try Self.buffer(of: channel, find).withVeryUnsafeBytes { bytes -> Int in
                    let start = (UInt(bitPattern: bytes.baseAddress) + page - 1) / page * page
                    let end = (UInt(bitPattern: bytes.baseAddress) + UInt(bytes.count)) / page * page
                    var residency = [UInt8](repeating: 0, count: Int((end - start) / page))
                    let status = mincore(UnsafeMutableRawPointer(bitPattern: start), Int(end - start), &residency)
                    expect(status, equals: 0)
                    return residency.count { $0 & 1 == 1 }
                }
            }
        }

        /// Finds a buffer in a reflection of the TLS handler.
        typealias Find = @Sendable (Mirror) -> Any?
        static let output: Find = { $0.descendant("connection", "bio", "some", "outboundBuffer") }
        static let input: Find = { $0.descendant("plaintextReadBuffer", "some") }

        private static func buffer(of channel: any Channel, _ find: Find) throws -> ByteBuffer {
            let tls = try channel.pipeline.syncOperations.handler(type: NIOSSLServerHandler.self)
            var mirror: Mirror? = Mirror(reflecting: tls)
            while let current = mirror {
                if let found = find(current) as? ByteBuffer { return found }
                mirror = current.superclassMirror
            }
            throw ChannelError.unknownLocalAddress
        }
    }

    /// A client over TLS that records what it receives.
    private final class Client: Sendable {
        let channel: any Channel
        private let recorder: Recorder

        private init(_ channel: any Channel, _ recorder: Recorder) {
            self.channel = channel
            self.recorder = recorder
        }

        static func connect(_ port: Int, _ version: String) async throws -> Client {
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.certificateVerification = .none
            configuration.applicationProtocols = [version]
            let context = try NIOSSLContext(configuration: configuration)
            let recorder = Recorder()
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let tls = try NIOSSLClientHandler(context: context, serverHostname: nil)
                        try channel.pipeline.syncOperations.addHandler(tls)
                        try channel.pipeline.syncOperations.addHandler(recorder)
                    }
                }
                .connect(host: "127.0.0.1", port: port).get()
            return Client(channel, recorder)
        }

        var received: ByteBuffer { recorder.bytes.withLock { $0 } }

        /// Sends a request, and waits for a body of this size. In HTTP/2 it is the first request.
        func get(_ version: String, size: Int) async throws {
            recorder.bytes.withLock { $0 = ByteBuffer() }
            var bytes = Array(Ask.get().utf8)
            if version == "h2" {
                bytes =
                    HTTP2WireFrame.preface
                    + HTTP2WireFrame.settings([HTTP2WireSetting(id: 4, value: 1 << 20)]).bytes
                    + HTTP2WireFrame.windowUpdate(0, 1 << 20).bytes + HTTP2WireFrame.headers(1, .get()).bytes
            }
            try await channel.writeAndFlush(ByteBuffer(bytes: bytes)).get()
            try await eventually("the response") { self.body(version).utf8.count >= size }
        }

        /// The body; with HTTP/1.1 everything after the head.
        func body(_ version: String) -> String {
            var bytes = received
            guard version == "h2" else {
                let text = String(buffer: bytes)
                let body = text.firstRange(of: "\r\n\r\n").map { text[$0.upperBound...] } ?? ""
                guard text.contains("chunked") else { return String(body) }
                // Of chunks, every second line is a size.
                return body.split(separator: "\r\n").enumerated().filter { $0.offset % 2 == 1 }.map { $0.element }
                    .joined()
            }
            var body = ""
            while let head = bytes.readBytes(length: 9) {
                let length = head[0..<3].reduce(0) { $0 << 8 | Int($1) }
                guard let payload = bytes.readString(length: length) else { break }
                if head[3] == 0 { body += payload }
            }
            return body
        }
    }

    private final class Recorder: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        let bytes = Mutex(ByteBuffer())

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let more = Self.unwrapInboundIn(data)
            bytes.withLock { _ = $0.writeImmutableBuffer(more) }
        }
    }

    private final class Counter: Sendable {
        let counts = Mutex((writes: 0, flushes: 0))
    }

    /// Counts what TLS writes after a request.
    private final class FlushCounter: ChannelDuplexHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundIn = ByteBuffer
        private let counter: Counter

        init(_ counter: Counter) { self.counter = counter }

        func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
            counter.counts.withLock { $0.writes += 1 }
            context.write(data, promise: promise)
        }

        func flush(context: ChannelHandlerContext) {
            counter.counts.withLock { $0.flushes += 1 }
            context.flush()
        }
    }

    /// Responds to each read with large output.
    private final class Writer: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let client: DownstreamConnectionInfo
        private let counter: Counter

        init(_ client: DownstreamConnectionInfo, _ counter: Counter) {
            self.client = client
            self.counter = counter
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            counter.counts.withLock { $0 = (0, 0) }
            client.write(ByteBuffer(string: "start"), from: context)
            let large = ByteBuffer(repeating: 7, count: 100_000)
            if String(buffer: Self.unwrapInboundIn(data)) == "flush" {
                client.writeAndFlush(large, from: context)
            } else {
                client.write(large, from: context)
                context.close(mode: .output, promise: nil)
            }
        }
    }
}
