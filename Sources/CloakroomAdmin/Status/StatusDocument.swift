/// What an operator opens first: how the gateway does. `/status.json` is this document, its names in snake case, and
/// `/` shows the same to people.
///
/// Names stay as they are and carry their units. What is not known, as a percentile of no requests, is left out.
/// Numbers named `total` count from the start of the process, `recent` and rates the last ``windowSeconds``.
struct StatusDocument: Sendable, Encodable {
    /// Whether traffic should come here.
    enum State: String, Sendable, Encodable {
        case ready
        /// A readiness check does not hold.
        case notReady = "not_ready"
        /// It was told to stop and serves what it has begun.
        case draining
    }

    var state: State
    /// What deserves a look, the worst first.
    var alerts: [StatusAlert] = []
    /// Now, ISO 8601.
    var generatedAt: String
    /// How far back rates, shares and percentiles look.
    var windowSeconds: Double
    var process: Process
    var config: Config
    var readiness: [ReadinessCheck]
    /// All routes together.
    var traffic: Requests
    /// The busiest first.
    var routes: [Route]
    var upstreams: [Upstream]
    var signIns: [Outcome]
    var sessions: Sessions
    var refreshes: [Outcome]
    var store: Store
    /// The first to expire first.
    var certificates: [Certificate]
    var telemetryDrops: [Count]
    var wireRejections: [Count]

    struct Process: Sendable, Encodable {
        var version: String
        var commit: String
        var startedAt: String
        var uptimeSeconds: Int64
    }

    struct Config: Sendable, Encodable {
        var file: String?
        var hash: String
        var loadedAt: String
        var lastReload: Reload?

        struct Reload: Sendable, Encodable {
            var at: String
            var succeeded: Bool
            var problems: [String]
        }
    }

    /// Requests of a kind.
    struct Requests: Sendable, Encodable {
        var total: UInt64
        var recent: UInt64
        var perSecond: Double
        /// Of the recent ones, 0...1.
        var errorShare: Double?
        var errorsTotal: UInt64
        var latency: Latency?
    }

    /// Percentiles of the recent ones.
    struct Latency: Sendable, Encodable {
        var p50Ms: Double
        var p95Ms: Double
        var p99Ms: Double
        /// The names of those that are more than the number says: it is the last bound of the histogram.
        var atLeast: [String]?
    }

    struct Route: Sendable, Encodable {
        var name: String
        var requests: Requests
        /// Answered 401.
        var unauthorizedTotal: UInt64
        var unauthorizedRecent: UInt64
    }

    struct Upstream: Sendable, Encodable {
        enum Health: String, Sendable, Encodable {
            case healthy
            /// Some of its targets cannot be reached.
            case degraded
            /// None can.
            case down
        }

        var name: String
        var health: Health
        var requests: Requests
        /// Connections that carry an exchange.
        var inFlight: UInt64
        /// Connections that are kept for the next one.
        var idle: UInt64
        /// Exchanges that wait for a connection.
        var pending: UInt64
        var retriesTotal: UInt64
        var targets: [Target]

        struct Target: Sendable, Encodable {
            var address: String
            var circuit: String
            var lastFailure: Failure?
        }

        struct Failure: Sendable, Encodable {
            var at: String
            var secondsAgo: Int64
            var reason: String
        }
    }

    /// Something that happened, by what came of it.
    struct Outcome: Sendable, Encodable {
        var outcome: String
        var total: UInt64
        var recent: UInt64
        var latency: Latency?
    }

    struct Sessions: Sendable, Encodable {
        /// `nil` where only the store's server could count them.
        var active: UInt64?
        var createdTotal: UInt64
        var ended: [Reason]

        struct Reason: Sendable, Encodable {
            var reason: String
            var total: UInt64
        }
    }

    struct Store: Sendable, Encodable {
        var kind: String
        /// Whether it can be reached; `nil` if it was not tried yet.
        var up: Bool?
        var operations: [Operation]

        struct Operation: Sendable, Encodable {
            var operation: String
            var requests: Requests
        }
    }

    struct Certificate: Sendable, Encodable {
        var listener: String
        var file: String
        var names: [String]
        var notAfter: String
        /// Whole days; negative once it has expired.
        var daysLeft: Int64
    }

    /// How often something happened.
    struct Count: Sendable, Encodable {
        var kind: String
        var total: UInt64
        var recent: UInt64
    }
}
