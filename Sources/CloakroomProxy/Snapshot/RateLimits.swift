import CloakroomCore
import CloakroomTelemetry

/// The rate limits of a configuration, prepared for requests.
final class RateLimits: Sendable {
    let table: RateLimitTable
    let fields: RateFields
    /// Those that count every request.
    let everyRequest: [RateLimitRuntime]
    private let limits: [RateLimitRuntime]

    /// - Returns: `nil` if nothing is limited.
    init?(_ configuration: GatewayConfiguration, storage: RateLimitStorage, metrics: ClientLimitMetrics) {
        let used = Set(configuration.limits.rate + configuration.routes.flatMap(\.rate))
        guard !used.isEmpty else { return nil }
        table = storage.table(keys: configuration.limits.rateKeys)
        fields = configuration.limits.rateFields
        let limits = configuration.rateLimits.enumerated().map { RateLimitRuntime($1, index: $0, metrics) }
        self.limits = limits
        everyRequest = configuration.limits.rate.compactMap { name in limits.first { $0.limit.name == name } }
    }

    /// The limits of a route: those of every request first.
    func limits(of route: Route) -> RouteRateLimits? {
        let listed = route.rate.compactMap { name in limits.first { $0.limit.name == name } }
        guard !listed.isEmpty else { return nil }
        // Otherwise clients without a session could use up what all users of the route share.
        let isLate = { (limit: RateLimitRuntime) in
            limit.limit.dependsOnSession || limit.limit.subject == .route && route.requiresAuthorization
        }
        return RouteRateLimits(
            key: RateKey(route: route.name), early: everyRequest + listed.filter { !isLate($0) },
            late: listed.filter(isLate))
    }
}

/// The rate limits that count the requests of a route.
struct RouteRateLimits: Sendable {
    /// The route as what a limit counts by.
    let key: RateKey
    /// The limits that are decided before the session is looked up.
    let early: [RateLimitRuntime]
    /// The limits that are decided with the session.
    let late: [RateLimitRuntime]
}

/// A rate limit with the numbers and texts that requests need.
final class RateLimitRuntime: Sendable {
    let limit: RateLimit
    /// Index in ``GatewayConfiguration/rateLimits``.
    let index: Int
    let allowed: CounterHandle
    let rejected: CounterHandle
    let observed: CounterHandle
    /// The response to a rejected request.
    private let document: ProblemDocument
    private let key: RateKey
    private let pace: RatePace
    /// The pace of the /48 of an IPv6 address.
    private let blockPace: RatePace
    private let policy: String

    init(_ limit: RateLimit, index: Int, _ metrics: ClientLimitMetrics) {
        self.limit = limit
        self.index = index
        allowed = metrics.rate(.allowed, limit.name)
        rejected = metrics.rate(.rejected, limit.name)
        observed = metrics.rate(.observed, limit.name)
        document = ProblemDocument(Problem(.rateLimited), limit: limit.name)
        key = RateKey(limit)
        pace = RatePace(limit)
        blockPace = RatePace(limit, times: 16)
        policy = pace.policy(named: limit.name)
    }

    /// The response to a rejected request.
    /// - Parameter message: That of the route; `nil` if it has none.
    func document(_ message: String?) -> ProblemDocument {
        message.map { ProblemDocument(Problem(.rateLimited, detail: $0), limit: limit.name) } ?? document
    }

    /// Charges a request: to an IPv6 address and its /48, or to none of them. The /48 first, so that addresses beyond
    /// its limit replace no keys.
    func charge(_ subject: RateKey, _ table: RateLimitTable, now: UInt64) -> RateLimitTable.Charge {
        let key = subject.at(key)
        guard key.block != 0 else { return table.charge(key.value, pace, now: now) }
        let block = table.charge(key.block, blockPace, now: now)
        guard block.wait == 0 else { return block }
        var charge = table.charge(key.value, pace, now: now)
        if charge.wait > 0 { table.refund(key.block, blockPace) }
        charge.isEviction = charge.isEviction || block.isEviction
        return charge
    }

    /// Takes a charge back.
    func refund(_ subject: RateKey, _ table: RateLimitTable) {
        let key = subject.at(key)
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
