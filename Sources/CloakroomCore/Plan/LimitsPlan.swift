/// Sizes and numbers at which a request is refused.
public struct LimitsConfiguration: Sendable, Equatable {
    /// The largest head of a message, in bytes, 1,024...65,535; beyond it 431.
    public var head: Int
    /// The most header fields of a message, 1...1,000; beyond it 431.
    public var fields: Int
    /// The longest request target, in bytes, 64...65,535 and less than ``head``; beyond it 414.
    public var target: Int
    /// The largest request body, in bytes; beyond it 413. A route may have its own.
    public var body: Int
    /// The most connections from clients at a time; beyond it new ones wait until they are accepted.
    public var connections: Int
    /// The most connections from one client's address at a time, or from one /64 of IPv6; beyond it a new one is closed
    /// at once. 0 is unlimited.
    public var connectionsPerAddress: Int
    /// The most streams of one HTTP/2 connection at a time, 1...1,000 (RFC 9113 §5.1.2).
    public var streamsPerConnection: Int
    /// After so many requests a client's connection is closed, in good order. 0 is unlimited.
    public var requestsPerConnection: Int

    /// Makes limits.
    public init(
        head: Int = 16_384, fields: Int = 100, target: Int = 8_192, body: Int = 10_485_760, connections: Int = 20_000,
        connectionsPerAddress: Int = 1_000, streamsPerConnection: Int = 100, requestsPerConnection: Int = 0
    ) {
        self.head = head
        self.fields = fields
        self.target = target
        self.body = body
        self.connections = connections
        self.connectionsPerAddress = connectionsPerAddress
        self.streamsPerConnection = streamsPerConnection
        self.requestsPerConnection = requestsPerConnection
    }
}

/// Times after which a wait is over. Each is more than zero and at most a day.
public struct TimeoutsConfiguration: Sendable, Equatable {
    /// From the first byte of a request until its head is complete; beyond it 408.
    public var header: Duration
    /// Between two parts of a body; beyond it 408, or the exchange is cut off.
    public var bodyIdle: Duration
    /// How long a client's connection may stay idle between requests.
    public var keepAlive: Duration
    /// Until a connection to the upstream stands; beyond it 504.
    public var connect: Duration
    /// From the request being sent until the upstream's response head; beyond it 504.
    public var responseHead: Duration
    /// For one call of a sign-in, a sign-out or a fetch of the user; beyond it 504.
    public var identity: Duration
    /// How long a WebSocket or an event stream may be silent; beyond it, it is closed.
    public var tunnelIdle: Duration
    /// How long running exchanges may take to finish once the gateway is told to stop.
    public var drain: Duration

    /// Makes timeouts.
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
