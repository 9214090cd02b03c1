import CloakroomCore
import CloakroomTelemetry

/// The rate limits of a configuration, prepared for requests.
final class RateLimits: Sendable {
    let table: RateLimitTable
    let claims: ClaimLimits
    let fields: RateFields
    let metrics: RateLimitMetrics
    /// Those that count every request.
    let everyRequest: [AppliedRateLimit]
    private let limits: [RateLimitRuntime]

    /// - Returns: `nil` if nothing is limited.
    init?(_ configuration: GatewayConfiguration, storage: RateLimitStorage, metrics: RateLimitMetrics) {
        let used = Set(configuration.limits.rate + configuration.routes.flatMap(\.rate))
        guard !used.isEmpty else { return nil }
        table = storage.table(keys: configuration.limits.rateKeys)
        claims = ClaimLimits(configuration.rateLimits)
        fields = configuration.limits.rateFields
        self.metrics = metrics
        let limits = configuration.rateLimits.enumerated().map { index, limit in
            RateLimitRuntime(limit, index: index, metrics.limit(limit.name))
        }
        self.limits = limits
        everyRequest = configuration.limits.rate.compactMap { name in
            limits.first { $0.limit.name == name }.map { AppliedRateLimit($0) }
        }
    }

    /// The limits of a route: those of every request first.
    func limits(of route: Route) -> RouteRateLimits? {
        let applied = route.rate.compactMap { name in
            limits.first { $0.limit.name == name }.map { AppliedRateLimit($0, message: route.messages[.rateLimited]) }
        }
        guard !applied.isEmpty else { return nil }
        return RouteRateLimits(
            key: RateKey(name: route.name), early: everyRequest + applied.filter { !$0.runtime.limit.dependsOnSession },
            late: applied.filter(\.runtime.limit.dependsOnSession))
    }
}

/// The rate limits that count the requests of a route.
struct RouteRateLimits: Sendable {
    /// The route as what a limit counts by.
    let key: RateKey
    /// The limits that are decided before the session is looked up.
    let early: [AppliedRateLimit]
    /// The limits that depend on the session.
    let late: [AppliedRateLimit]
}

/// A rate limit with the message of a route.
struct AppliedRateLimit: Sendable {
    let runtime: RateLimitRuntime
    /// The response to a rejected request.
    let document: ProblemDocument

    init(_ runtime: RateLimitRuntime, message: String? = nil) {
        self.runtime = runtime
        document = ProblemDocument(Problem(.rateLimited, detail: message), limit: runtime.limit.name)
    }
}

/// A rate limit with the numbers and texts that requests need.
final class RateLimitRuntime: Sendable {
    let limit: RateLimit
    /// Index in ``GatewayConfiguration/rateLimits``.
    let index: Int
    let counters: RateLimitCounters
    /// Whether all clients of a route are counted together.
    let isByRoute: Bool
    let dependsOnClaims: Bool
    private let key: RateKey
    private let pace: RatePace
    /// The pace of the /48 of an IPv6 address.
    private let blockPace: RatePace
    private let policy: String

    init(_ limit: RateLimit, index: Int, _ counters: RateLimitCounters) {
        self.limit = limit
        self.index = index
        self.counters = counters
        isByRoute = limit.subject == .route
        dependsOnClaims = limit.dependsOnClaims
        key = RateKey(name: limit.name)
        pace = RatePace(limit)
        blockPace = RatePace(limit, times: 16)
        policy = pace.policy(named: limit.name)
    }

    /// Charges a request: to an IPv6 address and its /48, or to none of them.
    func charge(_ subject: RateKey, _ table: RateLimitTable, now: UInt64) -> RateLimitTable.Charge {
        let key = subject.at(limit: key)
        var charge = table.charge(key.value, pace, now: now)
        guard key.block != 0, charge.wait == 0 else { return charge }
        let block = table.charge(key.block, blockPace, now: now)
        if block.wait > 0 { table.refund(key.value, pace) }
        charge.wait = block.wait
        charge.isEviction = charge.isEviction || block.isEviction
        return charge
    }

    /// Takes a charge back.
    func refund(_ subject: RateKey, _ table: RateLimitTable) {
        let key = subject.at(limit: key)
        table.refund(key.value, pace)
        if key.block != 0 { table.refund(key.block, blockPace) }
    }

    /// The lines that report the limit, with their line ends (draft-ietf-httpapi-ratelimit-headers-10). `t` is the number
    /// of seconds until the next request is permitted, or until the burst is complete again if requests are left.
    func fieldLines(_ charge: RateLimitTable.Charge) -> [UInt8] {
        let left = charge.wait > 0 ? 0 : pace.remaining(after: charge)
        let time = RatePace.seconds(charge.wait > 0 ? charge.wait : charge.used)
        return Array(
            "RateLimit-Policy: \(policy)\r\nRateLimit: \"\(limit.name)\";r=\(left);t=\(time)\r\n".utf8)
    }
}
