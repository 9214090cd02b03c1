public import CloakroomWire

/// How a target is selected for each request.
public struct BalanceConfiguration: Sendable, Hashable {
    /// What two randomly drawn targets are compared by.
    public enum Policy: String, Sendable, Hashable, CaseIterable {
        /// The estimated time to the response head, multiplied by the requests in flight.
        case latency
        /// The requests in flight.
        case requests
        /// No comparison: the targets in turn.
        case roundRobin
    }

    /// The defaults of all keys.
    public static let defaults = Self()

    /// The policy.
    public var policy: Policy = .latency
    /// The time after which a measured latency has half of its weight, 128 milliseconds to 1 minute. Not configurable: the
    /// default serves APIs of any speed, and only tests need another value.
    public var halfLife: Duration = .seconds(4)
    /// The minimum latency that a failed request counts as, 0 seconds to 1 minute, because a target that fails quickly would
    /// otherwise attract requests. Not configurable.
    public var failurePenalty: Duration = .seconds(1)
    /// The time over which a new or recovered target receives its full share, 0 seconds (at once) to 15 minutes.
    public var slowStart: Duration = .zero
}

/// Active health checks of the targets of an upstream.
public struct HealthCheckConfiguration: Sendable, Equatable {
    /// The request that is sent.
    public enum Probe: Sendable, Hashable {
        /// GET of a path; its response status is compared with ``statuses``.
        case http(path: String)
        /// `grpc.health.v1.Health/Check` for a service, an empty name for the whole server; `SERVING` passes.
        case grpc(service: String)
    }

    /// The request that is sent.
    public var probe: Probe
    /// The time between two checks of a target, 500 milliseconds to 1 hour.
    public var interval: Duration = .seconds(5)
    /// The time for one check, more than zero and at most ``interval``.
    public var timeout: Duration = .seconds(2)
    /// The number of consecutive passed checks after which a target is up, 1...10. Not configurable: one more check than
    /// the first passed one costs a second.
    public var rise = 2
    /// The number of consecutive failed checks after which a target is down, 1...10.
    public var fall = 3
    /// The statuses that pass, within 100...599. Never empty. Not used by a gRPC probe.
    public var statuses: [ClosedRange<Int>] = [200...299]
    /// The port of the check, 1...65535; `nil` uses the target's.
    public var port: Int?
    /// Whether the upstream's API token is sent.
    public var apiToken = false
}

extension HealthCheckConfiguration {
    /// Creates settings with the defaults of all keys but the request.
    public init(probe: Probe) { self.init(probe: probe, port: nil) }
}

/// When a target that fails requests is ejected: not selected until a time has passed.
public struct EjectionConfiguration: Sendable, Equatable {
    /// The defaults of all keys.
    public static let defaults = Self()

    /// The number of consecutive failures, 0...100; 0 disables this rule.
    public var consecutive = 5
    /// The fraction of failed requests within 10 seconds, 0...1; 0 disables this rule.
    public var share = 0.5
    /// The minimum number of requests within 10 seconds for ``share``: half of fewer requests can fail by chance.
    public static let volume = 20
    /// The response statuses that count as failures, within 500...599. Not configurable: with 500, one
    /// broken page would eject all targets in turn.
    public var statuses: Set<Int> = [502, 503, 504]
    /// The duration of the first ejection, 1 second to 1 hour; each further one takes twice as long.
    public var time: Duration = .seconds(10)
    /// The maximum fraction of an upstream's targets that are ejected at a time, 0...1; 0 disables ejection. Not
    /// configurable: if more than half of the targets fail, the others could not carry their load.
    public var most = 0.5

    /// The maximum duration of an ejection: 5 minutes, so that a recovered target is noticed, or ``time`` if longer.
    public var longest: Duration { max(.seconds(300), time) }

    /// Whether a target can be ejected at all.
    public var isEnabled: Bool { most > 0 && (consecutive > 0 || share > 0) }
}

/// The maximum number of requests in flight; further requests wait in the queue. 0 is unlimited.
public struct InFlightConfiguration: Sendable, Hashable {
    /// The defaults of all keys.
    public static let defaults = Self()

    /// To each target, 0...1,000,000.
    public var target = 0
}

/// Whether and how often a failed request is sent again.
public struct RetryConfiguration: Sendable, Equatable {
    /// The maximum number of times that a request is sent, 1...4; 1 disables retries.
    public var attempts = 2 {
        didSet { connects = attempts }
    }
    /// ``attempts`` if it was set; 3 by default.
    private var connects = 3
    /// The response statuses after which a request is sent again, of 502, 503 and 504.
    public var statuses: Set<Int> = []
    /// The methods that are sent again after `reset`, one of ``statuses`` or ``attemptTimeout``.
    public var methods: Set<RequestMethod> = [.get, .head, .options]
    /// The number of retries that each request adds to the budget, 0...1.
    public var budget = 0.1
    /// The number of retries per second that are permitted in addition, 0...1,000, so that an upstream with few requests
    /// has retries at all. Not configurable.
    public var perSecond = 3
    /// The maximum time from sending a request to its response head before another attempt; zero disables it.
    public var attemptTimeout = Duration.zero

    package init() {}

    /// Whether a request can be sent again at all.
    public var isEnabled: Bool { attempts > 1 }

    /// The maximum number of targets that are tried to establish a connection for a request, 1...4: ``attempts`` if it
    /// was set, 3 by default; 1 if retries are disabled.
    public var connectTargets: Int { isEnabled ? connects : 1 }
}

/// How host names of targets are resolved. Each address of a name is a target.
public struct DNSConfiguration: Sendable, Hashable {
    /// The time between two queries, 1 second to 1 day.
    public var interval: Duration = .seconds(30)
    /// How long an address is used after it was last in a DNS response, 0 seconds to 1 day.
    public var keep: Duration = .seconds(120)
}

/// The HTTP version of the connections to an upstream.
public enum UpstreamProtocol: String, Sendable, Hashable, CaseIterable {
    /// HTTP/1.1 (RFC 9112).
    case http1
    /// HTTP/2 over TLS, negotiated by ALPN (RFC 9113 §3.2); a target without it cannot be connected to.
    case http2
    /// HTTP/2 without TLS, with prior knowledge (RFC 9113 §3.3).
    case h2c
    /// Over TLS the version that ALPN selects, otherwise HTTP/1.1.
    case auto

    /// Whether connections can use HTTP/2, which gRPC requires.
    public var allowsHTTP2: Bool { self != .http1 }

    /// Whether all connections use HTTP/2, so that each serves several requests at a time.
    public var isMultiplexed: Bool { self == .http2 || self == .h2c }
}
