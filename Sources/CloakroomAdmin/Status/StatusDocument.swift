/// The status of the gateway. `/status.json` is this document with member names in snake case, which the
/// status page draws.
///
/// Member names are stable and include their units. Unknown values, such as a percentile of no requests, are omitted.
/// Values named `total` count from the start of the process; `recent` values and rates cover the last
/// ``windowSeconds``.
struct StatusDocument: Sendable, Encodable {
    /// Whether the gateway accepts traffic.
    enum State: String, Sendable, Encodable {
        case ready
        /// A readiness check failed.
        case notReady = "not_ready"
        /// The gateway is draining.
        case draining
    }

    var state: State
    /// The worst that is true: a critical alert while the gateway accepts traffic, otherwise ``state`` in words.
    var headline = ""
    /// The alerts, most severe first.
    var alerts: [StatusAlert] = []
    /// The current time, ISO 8601.
    var generatedAt: String
    /// The period of rates, fractions and percentiles.
    var windowSeconds: Double
    var process: Process
    var config: Config
    var readiness: [ReadinessCheck]
    /// The sum of all routes.
    var traffic: Requests
    /// Ordered by request rate, highest first.
    var routes: [Route]
    var upstreams: [Upstream]
    /// The recent failures of all routes, the latest first; at most 20.
    var recentFailures: [RequestFailure] = []
    /// The OpenID Providers, in the order of the configuration; empty if there are none.
    var identities: [Identity]
    var signIns: [Outcome]
    var sessions: Sessions
    var refreshes: [Outcome]
    var store: Store
    /// Ordered by expiry, earliest first.
    var certificates: [Certificate]
    var telemetryDrops: [Count]
    var wireRejections: [Count]
    /// Client connections.
    var connections: Connections?
    /// The last failed identity calls, the newest first; at most 20.
    var identityCallFailures: [IdentityCallFailure] = []
    /// The trend of the gateway, and with `?trends=all` those of routes and targets.
    var trends: [StatusTrendDocument] = []
    /// The number of routes and targets whose trend is not kept.
    var trendsNotKept = 0
    /// With `?route=NAME` or `?upstream=NAME&target=ADDRESS`, if there is one with these names.
    var details: Details?

    enum CodingKeys: String, CodingKey {
        case state, headline
        // The member keeps its name: clients read it.
        case alerts = "concerns"
        case generatedAt, windowSeconds, process, config, readiness, traffic, routes, upstreams, recentFailures
        case identities, signIns, sessions, refreshes, store, certificates, telemetryDrops, wireRejections
        case connections, identityCallFailures, trends, trendsNotKept, details
    }

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

    /// The requests of one kind.
    struct Requests: Sendable, Encodable {
        var total: UInt64
        var recent: UInt64
        var perSecond: Double
        /// The fraction of failed recent requests, 0...1.
        var errorShare: Double?
        var errorsTotal: UInt64
        var latency: Latency?
    }

    /// Percentiles of the recent requests.
    struct Latency: Sendable, Encodable {
        var p50Ms: Double
        var p95Ms: Double
        var p99Ms: Double
        /// The names of percentiles above the highest bound of the histogram; their number is that bound.
        var atLeast: [String]?
        /// The names of percentiles with fewer requests than they need: 2 for p50, 20 for p95, 100 for p99. Their number
        /// is the longest duration, or the upper bound of its bucket.
        var tooFew: [String]?
        /// All durations in ascending order, if there are fewer than 20 and they are known.
        var samplesMs: [Double]?
    }

    struct Route: Sendable, Encodable {
        var name: String
        /// Methods, hosts, path and target: `GET /videos/{id} → api`. Absent if the configuration has no such route.
        var serves: String?
        var requests: Requests
        /// Responses with status 401.
        var unauthorizedTotal: UInt64
        var unauthorizedRecent: UInt64
    }

    /// Failed requests of one kind to a route or a target.
    struct RequestFailure: Sendable, Encodable {
        /// Absent in ``Details``.
        var route: String?
        /// Three digits; absent if there was no response.
        var status: String?
        /// A fixed word, such as `upstream_timeout`.
        var reason: String
        var count: UInt64
        var firstAt: String
        var lastAt: String
        /// The first thing to check.
        var hint: String
    }

    /// The values of one route or target that only its page shows.
    struct Details: Sendable, Encodable {
        var requests: Requests
        var trend: StatusTrendDocument
        /// Whether the trend is kept: there may be too many routes and targets.
        var trendKept: Bool
        /// The latest first; at most 20.
        var failures: [RequestFailure]
        /// Responses of a route since the start; empty for a target.
        var responses: [Response] = []
        /// Connection attempts, health checks and ejections of a target since the start; empty for a route.
        var events: [Event] = []

        struct Response: Sendable, Encodable {
            /// Three digits; absent for requests without a response.
            var status: String?
            var total: UInt64
        }

        struct Event: Sendable, Encodable {
            /// `connect`, `check` or `ejection`.
            var kind: String
            var outcome: String
            var total: UInt64
        }
    }

    struct Upstream: Sendable, Encodable {
        enum Health: String, Sendable, Encodable {
            case healthy
            /// Some targets are not usable.
            case degraded
            /// No target is usable.
            case down
        }

        var name: String
        var health: Health
        var requests: Requests
        /// Connections in use by a request.
        var inFlight: UInt64
        /// Idle connections.
        var idle: UInt64
        /// Requests waiting for a connection.
        var pending: UInt64
        var retriesTotal: UInt64
        /// Whether targets that are not usable are used because none is usable.
        var panic: Bool
        /// Whether failed requests are not sent again because the budget is spent.
        var retryBudgetSpent: Bool
        /// Host names that could not be resolved for a long time; absent if there are none.
        var staleNames: [String]?
        var targets: [Target]

        struct Target: Sendable, Encodable {
            var address: String
            /// The resolved address.
            var peer: String?
            var circuit: String
            /// `up`, `warming`, `ejected`, `backing_off`, `down` or `draining`.
            var state: String
            var reason: String?
            /// When the state ends, and the remaining time.
            var until: String?
            var secondsLeft: Int64?
            var inFlight: Int?
            var lastFailure: Failure?
        }

    }

    /// The last failure of a target or a provider.
    struct Failure: Sendable, Encodable {
        var at: String
        var secondsAgo: Int64
        var reason: String
        /// Absent for a target.
        var remedy: String?
    }

    /// An OpenID Provider.
    struct Identity: Sendable, Encodable {
        var name: String
        var issuer: String
        /// `up`, `stale` or `down`.
        var state: String
        /// Keys that can verify tokens.
        var keys: Int
        /// Published keys that cannot be used.
        var skippedKeys: Int
        /// Absent before the first fetch.
        var keysAgeSeconds: Int64?
        var loginsTotal: UInt64
        var loginsRecent: UInt64
        /// Recent logins that failed because of the provider, the store or the configuration.
        var loginsFailedRecent: UInt64
        /// Logouts that the provider reported.
        var logoutsTotal: UInt64
        /// Differences between the provider and the configuration; absent if there are none.
        var findings: [String]?
        var lastFailure: Failure?
    }

    /// Client connections, and pauses in which none is accepted.
    struct Connections: Sendable, Encodable {
        var open: UInt64
        var active: UInt64
        var limit: UInt64
        /// Listeners that do not accept connections now.
        var pausedListeners: UInt64
        var pausesTotal: UInt64
        /// Recent pauses, by reason: `limit` or `resources`.
        var pausesRecent: [Count]
    }

    /// A call to the upstream that signs users in, or to a provider, without a usable result.
    struct IdentityCallFailure: Sendable, Encodable {
        var at: String
        var secondsAgo: Int64
        /// `sign_in`, `user`, `renew`, `revoke`, `discovery`, `keys`, `push`, `code` or `exchange`.
        var call: String
        /// Absent for a call to a provider.
        var upstream: String?
        /// Absent for a call to an upstream.
        var identity: String?
        var method: String
        var server: String
        var path: String
        /// Absent without a response.
        var status: Int?
        var reason: String
        /// The configuration key whose member is not usable.
        var key: String?
        /// The expected member.
        var expected: String?
        /// The names of the members that were there.
        var found: [String]?
        var durationMs: UInt64
        var hint: String?
    }

    /// The number of operations by outcome.
    struct Outcome: Sendable, Encodable {
        var outcome: String
        var total: UInt64
        var recent: UInt64
        var latency: Latency?
    }

    struct Sessions: Sendable, Encodable {
        /// `nil` if only the server of the store could count them.
        var active: UInt64?
        var createdTotal: UInt64
        /// Sessions that were bound to a device; absent if there were none.
        var boundTotal: UInt64?
        /// Created sessions of apps; absent if there were none.
        var apps: [App]?
        var ended: [Reason]

        struct App: Sendable, Encodable {
            var app: String
            var createdTotal: UInt64
        }

        struct Reason: Sendable, Encodable {
            var reason: String
            var total: UInt64
        }
    }

    struct Store: Sendable, Encodable {
        var kind: String
        /// Whether the store is reachable; `nil` before the first attempt.
        var up: Bool?
        var operations: [Operation]
        /// The reasons of failures since the start, the latest period's most frequent one first.
        var errors: [Failure]

        struct Failure: Sendable, Encodable {
            var reason: String
            /// What an operator can do.
            var hint: String
            var total: UInt64
            var recent: UInt64
        }

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

    /// The number of events of one kind.
    struct Count: Sendable, Encodable {
        var kind: String
        var total: UInt64
        var recent: UInt64
    }
}
