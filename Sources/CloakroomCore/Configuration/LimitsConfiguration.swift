/// Limits beyond which a request is rejected.
public struct LimitsConfiguration: Sendable, Equatable {
    /// The maximum size of a message head in bytes, 1,024...65,535; larger ones are rejected with 431.
    public var head: Int
    /// The maximum number of header fields of a message, 1...1,000; beyond it 431.
    public var fields: Int
    /// The maximum length of a request target in bytes, 64...65,535 and less than ``head``; beyond it 414.
    public var target: Int
    /// The maximum size of a request body in bytes; beyond it 413. A route may override it.
    public var body: Int
    /// The maximum number of client connections at a time; beyond it accepting is paused.
    public var connections: Int
    /// The maximum number of connections at a time from one client address, or from one /64 of IPv6; beyond it a new
    /// one is closed at once. 0 is unlimited.
    public var connectionsPerAddress: Int
    /// The maximum number of concurrent streams of an HTTP/2 connection, 1...1,000 (RFC 9113 §5.1.2).
    public var streamsPerConnection: Int
    /// The number of requests after which a client connection is closed gracefully. 0 is unlimited.
    public var requestsPerConnection: Int
    /// The number of bytes of a request body that are buffered before a connection to the upstream is leased,
    /// 0...65,536. 0 disables buffering.
    public var requestBuffer: Int
    /// The number of bytes of all buffered request bodies, 0...17,179,869,184; beyond it bodies are not buffered.
    public var requestBuffers: Int
    /// The minimum rate in bytes per second at which a client must send or receive, averaged over
    /// ``TimeoutsConfiguration/bodyIdle``, 0...1,048,576; below it 408, or the response is aborted. 0 disables it.
    public var minimumRate: Int
    /// The rate in bytes per second, 0...16,777,216, below which a client may be disconnected while other requests
    /// wait for a connection to the same upstream. 0 disables it.
    public var pressureRate: Int
    /// The maximum number of requests in flight from one client address, or from one /64 of IPv6, 0...1,000,000;
    /// beyond it 429. 0 is unlimited.
    public var inFlightPerAddress: Int
    /// The maximum number of requests in flight of one session, 0...1,000,000; beyond it 429. 0 is unlimited.
    public var inFlightPerSession: Int

    /// Creates limits.
    public init(
        head: Int = 16_384, fields: Int = 100, target: Int = 8_192, body: Int = 10_485_760, connections: Int = 20_000,
        connectionsPerAddress: Int = 1_000, streamsPerConnection: Int = 100, requestsPerConnection: Int = 0,
        requestBuffer: Int = 16_384, requestBuffers: Int = 67_108_864, minimumRate: Int = 256,
        pressureRate: Int = 16_384, inFlightPerAddress: Int = 512, inFlightPerSession: Int = 128
    ) {
        self.head = head
        self.fields = fields
        self.target = target
        self.body = body
        self.connections = connections
        self.connectionsPerAddress = connectionsPerAddress
        self.streamsPerConnection = streamsPerConnection
        self.requestsPerConnection = requestsPerConnection
        self.requestBuffer = requestBuffer
        self.requestBuffers = requestBuffers
        self.minimumRate = minimumRate
        self.pressureRate = pressureRate
        self.inFlightPerAddress = inFlightPerAddress
        self.inFlightPerSession = inFlightPerSession
    }
}

/// Timeouts. Each is more than zero and at most a day.
public struct TimeoutsConfiguration: Sendable, Equatable {
    /// From the first byte of a request to the end of its head; beyond it 408.
    public var header: Duration
    /// Between two parts of a body; beyond it 408, or the exchange is aborted.
    public var bodyIdle: Duration
    /// The maximum idle time of a client connection between requests.
    public var keepAlive: Duration
    /// For establishing a connection to the upstream; beyond it 504.
    public var connect: Duration
    /// From sending the request to the upstream's response head; beyond it 504.
    public var responseHead: Duration
    /// For one call of a sign-in, a sign-out or a user fetch; beyond it 504.
    public var identity: Duration
    /// The maximum idle time of a WebSocket or an event stream; beyond it the connection is closed.
    public var tunnelIdle: Duration
    /// How long in-flight exchanges may take to complete during shutdown.
    public var drain: Duration

    /// Creates timeouts.
    public init(
        header: Duration = .seconds(10), bodyIdle: Duration = .seconds(30), keepAlive: Duration = .seconds(60),
        connect: Duration = .seconds(5), responseHead: Duration = .seconds(30), identity: Duration = .seconds(10),
        tunnelIdle: Duration = .seconds(300), drain: Duration = .seconds(30)
    ) {
        self.header = header
        self.bodyIdle = bodyIdle
        self.keepAlive = keepAlive
        self.connect = connect
        self.responseHead = responseHead
        self.identity = identity
        self.tunnelIdle = tunnelIdle
        self.drain = drain
    }
}
