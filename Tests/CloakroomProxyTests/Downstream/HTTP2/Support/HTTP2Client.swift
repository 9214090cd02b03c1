import CloakroomCore
import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOPosix
import Synchronization
import TestSupport

/// A client that sends HTTP/2 frames one by one, and can break any rule.
final class HTTP2Client: Sendable {
    /// Options of the client's behavior.
    struct HTTP2ClientOptions: Sendable {
        /// Settings sent with the preface.
        var settings: [HTTP2WireSetting] = []
        /// Whether the client sends WINDOW_UPDATE for every body byte it reads.
        var sendsWindowUpdates = true
        /// Whether the client acknowledges pings.
        var respondsToPings = true
        var acknowledgesSettings = true
        /// Whether the client keeps bodies; otherwise it only counts their bytes.
        var keepsBodies = true
        /// Whether the client sends preface and settings first.
        var introducesItself = true
        /// The size of the socket's receive buffer in bytes, for a client that does not read.
        var receiveBuffer: Int?
        /// Whether the client reads automatically.
        var reads = true
        /// The client's address; `nil` for the system's choice.
        var source: String?
    }

    let channel: any Channel
    private let recorder: HTTP2Recorder

    private init(channel: any Channel, recorder: HTTP2Recorder) {
        self.channel = channel
        self.recorder = recorder
    }

    static func connect(port: Int, _ manners: HTTP2ClientOptions = HTTP2ClientOptions()) async throws -> HTTP2Client {
        let recorder = HTTP2Recorder(manners)
        var bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.autoRead, value: manners.reads)
            .channelOption(.writeBufferWaterMark, value: .init(low: 1 << 20, high: 2 << 20))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(HTTP2ReadingHandler(recorder))
                }
            }
        if let size = manners.receiveBuffer {
            bootstrap = bootstrap.channelOption(.socketOption(.so_rcvbuf), value: .init(size))
        }
        if let source = manners.source { bootstrap = bootstrap.bind(to: try SocketAddress(ipAddress: source, port: 0)) }
        let channel = try await bootstrap.connect(host: "127.0.0.1", port: port).get()
        let client = HTTP2Client(channel: channel, recorder: recorder)
        if manners.introducesItself { client.introduce(manners.settings) }
        return client
    }

    func introduce(_ settings: [HTTP2WireSetting] = []) {
        send(bytes: HTTP2WireFrame.preface + HTTP2WireFrame.settings(settings).bytes)
    }

    // MARK: - Sending

    func send(_ frames: HTTP2WireFrame...) { send(frames) }

    /// Sends frames in one write.
    func send(_ frames: [HTTP2WireFrame]) {
        recorder.state.withLock { state in
            for frame in frames { state.noteSent(frame) }
        }
        send(bytes: frames.flatMap(\.bytes))
    }

    func send(bytes: [UInt8]) {
        channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil)
    }

    /// Sends a body as the windows allow.
    /// - Parameter padding: The number of padding bytes in each frame.
    func upload(_ stream: UInt32, _ count: Int, frame size: Int = 16_384, padding: UInt8? = nil, ends: Bool = true)
        async throws
    {
        var left = count
        let extra = padding.map { Int($0) + 1 } ?? 0
        while left > 0 {
            let next = min(size, left)
            try await eventually("room for \(next) bytes on stream \(stream)") {
                self.recorder.state.withLock { $0.room(on: stream) >= next + extra || $0.isClosed }
            }
            guard !isClosed else { throw ResponseTruncated() }
            left -= next
            send(.data(stream, Array(repeating: 0x61, count: next), ends: ends && left == 0, padding: padding))
        }
    }

    // MARK: - Received

    var isClosed: Bool { recorder.state.withLock { $0.isClosed } }
    /// The received GOAWAYs, in order.
    var goAways: [HTTP2GoAway] { recorder.state.withLock { $0.goAways } }
    /// The server's settings; the last value of each.
    var settings: [UInt16: UInt32] { recorder.state.withLock { $0.settings } }
    /// The headers of the received frames, in order.
    var frames: [HTTP2ReceivedFrame] { recorder.state.withLock { $0.frames } }
    /// The received frames of one stream, in order.
    func frames(of stream: UInt32) -> [HTTP2ReceivedFrame] { frames.filter { $0.stream == stream } }
    /// The number of body bytes received on all streams.
    var bodyCount: Int { recorder.state.withLock { $0.streams.values.reduce(0) { $0 + $1.bodyCount } } }

    /// The data received on a stream so far.
    func stream(_ id: UInt32) -> HTTP2TestResponse { recorder.state.withLock { $0.streams[id] ?? HTTP2TestResponse() } }

    /// The number of bytes that may be sent on a stream now.
    func room(on stream: UInt32) -> Int { recorder.state.withLock { $0.room(on: stream) } }

    /// Waits until the server has ended or reset a stream.
    /// - Throws: ``ResponseTruncated`` if the connection is closed before.
    @discardableResult
    func response(_ id: UInt32, within limit: Duration = .seconds(40)) async throws -> HTTP2TestResponse {
        try await eventually("the end of stream \(id)", within: limit) { self.stream(id).isOver || self.isClosed }
        guard stream(id).isOver else { throw ResponseTruncated() }
        return stream(id)
    }

    /// Waits until the server has reset a stream.
    func reset(_ id: UInt32) async throws -> HTTP2ErrorCode? {
        try await eventually("a reset of stream \(id)") { self.stream(id).reset != nil || self.isClosed }
        return stream(id).reset
    }

    /// Sends a request and waits for its response.
    func exchange(
        _ id: UInt32, _ fields: HTTP2Fields, within limit: Duration = .seconds(40)
    ) async throws -> HTTP2TestResponse {
        send(.headers(id, fields))
        return try await response(id, within: limit)
    }

    /// Waits until the server has received and processed everything sent so far.
    func settle() async throws {
        for _ in 0..<3 {
            let before = recorder.state.withLock { $0.pongs }
            send(.ping(9))
            try await eventually("a ping acknowledgement") {
                self.recorder.state.withLock { $0.pongs > before || $0.isClosed }
            }
        }
    }

    /// Waits for a GOAWAY with an error.
    /// - Returns: The error, or `nil` if the connection was closed without one.
    func error(within limit: Duration = .seconds(40)) async throws -> HTTP2ErrorCode? {
        try await eventually("a GOAWAY with an error", within: limit) {
            self.isClosed || self.goAways.contains { $0.code != .noError }
        }
        return goAways.first { $0.code != .noError }?.code
    }

    /// Waits until the server has closed the connection.
    func closed(within limit: Duration = .seconds(40)) async throws {
        try await eventually("the end of the HTTP/2 connection", within: limit) { self.isClosed }
    }

    func setReading(_ reads: Bool) async throws {
        try await channel.setOption(.autoRead, value: reads).get()
    }

    func close() async throws {
        try? await channel.close().get()
    }
}

extension RunningGateway {
    /// A new connection of an HTTP/2 client.
    func http2(_ manners: HTTP2Client.HTTP2ClientOptions = .init()) async throws -> HTTP2Client {
        try await HTTP2Client.connect(port: port, manners)
    }

    /// Whether a client that follows the rules is served.
    func serves(_ path: String = "/nowhere") async throws -> Bool {
        let client = try await http2()
        let response = try await client.exchange(1, .get(path))
        try await client.close()
        return response.status == (path == "/nowhere" ? 404 : 200) && response.isEnded
    }
}

extension RunningGateway {
    /// Whether a new client that follows the rules is served, and soon: meanwhile another client attacks.
    func servesSoon(within limit: Duration = .seconds(10)) async throws -> Bool {
        let start = ContinuousClock.now
        let isServed = try await serves()
        return isServed && ContinuousClock.now - start < limit
    }
}

extension GatewaySetup {
    /// Enables HTTP/2 on the first listener, and changes the configuration.
    func http2(_ adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }) -> GatewaySetup {
        configuration {
            $0.listeners[0].http2 = true
            adjust(&$0)
        }
    }
}
