/// Limits beyond which a request is rejected.
public struct LimitsConfiguration: Sendable, Equatable {
    /// The defaults of all keys.
    public static let defaults = Self()

    /// The maximum size of a message head in bytes, 1,024...65,535; larger ones are rejected with 431.
    public var head = 16_384
    /// The maximum number of header fields of a message, 1...1,000; beyond it 431.
    public var fields = 100
    /// The maximum length of a request target in bytes, half of ``head`` if it is configured; beyond it 414.
    public var target = 8_192
    /// The maximum size of a request body in bytes; beyond it 413. A route may override it.
    public var body = 10_485_760
    /// The maximum number of client connections at a time; beyond it accepting is paused.
    public var connections = 20_000
    /// The maximum number of connections at a time from one client address, or from one /64 of IPv6; beyond it a new
    /// one is closed at once. 0 is unlimited.
    public var connectionsPerAddress = 1_000
    /// The maximum number of concurrent streams of an HTTP/2 connection, 1...1,000 (RFC 9113 §5.1.2).
    public var streamsPerConnection = 100
    /// The number of bytes of a request body that are buffered before a connection to the upstream is leased,
    /// 0...65,536. 0 disables buffering.
    public var requestBuffer = 16_384
    /// The number of bytes of all buffered request bodies, 0...17,179,869,184; beyond it bodies are not buffered.
    public var requestBuffers = 67_108_864
    /// The minimum rate in bytes per second at which a client must send or receive, averaged over
    /// ``TimeoutsConfiguration/bodyIdle``, 0...1,048,576; below it 408, or the response is aborted. 0 disables it.
    public var minimumRate = 256
    /// The rate in bytes per second, 0...16,777,216, below which a client may be disconnected while other requests
    /// wait for a connection to the same upstream. 0 disables it.
    public var pressureRate = 16_384
    /// The maximum number of requests in flight from one client address, or from one /64 of IPv6, 0...1,000,000;
    /// beyond it 429. 0 is unlimited.
    public var inFlightPerAddress = 512
    /// The maximum number of requests in flight of one session, 0...1,000,000; beyond it 429. 0 is unlimited.
    public var inFlightPerSession = 128
    /// The names of the rate limits, by address, that count every request but preflights and logout requests of
    /// providers.
    public var rate: [String] = []
    /// The number of keys of all rate limits that are counted at a time, 1,024...16,777,216: 16 bytes each.
    public var rateKeys = 65_536
    /// When responses report rate limits.
    public var rateFields: RateFields = .rejected
    /// The maximum number of files that are sent from disk at a time, by the limit of descriptors; beyond it, or a
    /// quarter of it for one client address, 503.
    public var openFiles = 128
}

/// Timeouts. Each is more than zero and at most a day.
public struct TimeoutsConfiguration: Sendable, Equatable {
    /// The defaults of all keys.
    public static let defaults = Self()

    /// From the first byte of a request to the end of its head; beyond it 408.
    public var header: Duration = .seconds(10)
    /// Between two parts of a body; beyond it 408, or the exchange is aborted.
    public var bodyIdle: Duration = .seconds(30)
    /// The maximum idle time of a client connection between requests.
    public var keepAlive: Duration = .seconds(60)
    /// For establishing a connection to the upstream; beyond it 504.
    public var connect: Duration = .seconds(5)
    /// From sending the request to the upstream's response head; beyond it 504.
    public var responseHead: Duration = .seconds(30)
    /// For one call of a sign-in, a sign-out or a user fetch; beyond it 504.
    public var identity: Duration = .seconds(10)
    /// The maximum idle time of a WebSocket or an event stream; beyond it the connection is closed.
    public var tunnelIdle: Duration = .seconds(300)
    /// How long in-flight exchanges may take to complete during shutdown.
    public var drain: Duration = .seconds(30)
}
