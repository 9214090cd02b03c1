import CloakroomCore
import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOPosix
import Synchronization
import TestSupport

/// A client that speaks HTTP/2 frame by frame, and breaks whatever rule a test wants to see broken.
final class HTTP2Client: Sendable {
    /// How it behaves.
    struct HTTP2ClientOptions: Sendable {
        /// Sent with the preface.
        var settings: [HTTP2WireSetting] = []
        /// Whether it gives back the room of every byte of body it reads.
        var sendsWindowUpdates = true
        /// Whether it answers pings.
        var respondsToPings = true
        /// Whether it acknowledges settings.
        var acknowledgesSettings = true
        /// Whether it keeps bodies, or only counts their bytes.
        var keepsBodies = true
        /// Whether it begins with preface and settings.
        var introducesItself = true
        /// Makes the system buffer less if the client does not read, in bytes.
        var receiveBuffer: Int?
        /// Whether it reads by itself.
        var reads = true
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

    /// Sends frames in one go.
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
    /// - Parameter padding: How much of it is in each frame, besides.
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

    // MARK: - What came

    var isClosed: Bool { recorder.state.withLock { $0.isClosed } }
    /// The GOAWAYs, in order.
    var goAways: [HTTP2GoAway] { recorder.state.withLock { $0.goAways } }
    /// What the server set; the last value of each.
    var settings: [UInt16: UInt32] { recorder.state.withLock { $0.settings } }
    /// How many bytes of body came on all streams.
    var bodyCount: Int { recorder.state.withLock { $0.streams.values.reduce(0) { $0 + $1.bodyCount } } }

    /// What came on a stream so far.
    func stream(_ id: UInt32) -> HTTP2TestResponse { recorder.state.withLock { $0.streams[id] ?? HTTP2TestResponse() } }

    /// How many bytes may be sent on a stream now.
    func room(on stream: UInt32) -> Int { recorder.state.withLock { $0.room(on: stream) } }

    /// Waits until the server has ended or reset a stream.
    /// - Throws: ``ResponseTruncated`` if the connection is closed before.
    @discardableResult
    func response(_ id: UInt32) async throws -> HTTP2TestResponse {
        try await eventually("the end of stream \(id)") { self.stream(id).isOver || self.isClosed }
        guard stream(id).isOver else { throw ResponseTruncated() }
        return stream(id)
    }

    /// Waits until the server has reset a stream.
    func reset(_ id: UInt32) async throws -> HTTP2ErrorCode? {
        try await eventually("a reset of stream \(id)") { self.stream(id).reset != nil || self.isClosed }
        return stream(id).reset
    }

    /// Sends a request and waits for its answer.
    func exchange(_ id: UInt32, _ fields: HTTP2Fields) async throws -> HTTP2TestResponse {
        send(.headers(id, fields))
        return try await response(id)
    }

    /// Waits until all that was sent has been seen, and what follows from it has been done.
    func settle() async throws {
        for _ in 0..<3 {
            let before = recorder.state.withLock { $0.pongs }
            send(.ping(9))
            try await eventually("an answer to a ping") {
                self.recorder.state.withLock { $0.pongs > before || $0.isClosed }
            }
        }
    }

    /// Waits for a GOAWAY that names an error.
    /// - Returns: The error, or `nil` if the connection was closed without one.
    func error() async throws -> HTTP2ErrorCode? {
        try await eventually("a GOAWAY with an error") {
            self.isClosed || self.goAways.contains { $0.code != .noError }
        }
        return goAways.first { $0.code != .noError }?.code
    }

    /// Waits until the server has closed the connection.
    func closed() async throws {
        try await eventually("the end of the HTTP/2 connection") { self.isClosed }
    }

    func setReading(_ reads: Bool) async throws {
        try await channel.setOption(.autoRead, value: reads).get()
    }

    /// Goes away.
    func close() async throws {
        try? await channel.close().get()
    }
}

extension RunningGateway {
    /// A new connection of a client that speaks HTTP/2.
    func http2(_ manners: HTTP2Client.HTTP2ClientOptions = .init()) async throws -> HTTP2Client {
        try await HTTP2Client.connect(port: port, manners)
    }

    /// Whether a client that keeps to the rules is served.
    func serves(_ path: String = "/nowhere") async throws -> Bool {
        let client = try await http2()
        let response = try await client.exchange(1, .get(path))
        try await client.close()
        return response.status == (path == "/nowhere" ? 404 : 200) && response.isEnded
    }
}

extension GatewaySetup {
    /// Has the first listener speak HTTP/2 too, and changes the plan.
    func http2(_ adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }) -> GatewaySetup {
        configuration {
            $0.listeners[0].http2 = true
            adjust(&$0)
        }
    }
}
