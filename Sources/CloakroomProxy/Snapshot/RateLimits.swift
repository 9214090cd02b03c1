import CloakroomCore
import CloakroomTelemetry
import CloakroomWire

/// The rate limits of a configuration, prepared for requests.
final class RateLimits: Sendable {
    /// The hash is that of the storage, which has references.
    let (storage, hash): (RateLimitStorage, KeyedHash)
    let table: RateLimitTable
    /// Those that count every request.
    let everyRequest: [RateLimitRuntime]
    private let limits: [RateLimitRuntime]
    /// The buckets that other gateways share.
    let shared: [RateBuckets]

    /// - Returns: `nil` if nothing is limited.
    init?(_ configuration: GatewayConfiguration, storage: RateLimitStorage, metrics: ClientLimitMetrics) {
        let used = Set(configuration.limits.rate + configuration.routes.flatMap(\.rate))
        guard !used.isEmpty else { return nil }
        let table = storage.table(keys: configuration.limits.rateKeys)
        (self.storage, hash, self.table) = (storage, storage.hash, table)
        let limits = configuration.rateLimits.enumerated().map {
            RateLimitRuntime($1, index: $0, storage, table, metrics, fields: configuration.limits.rateFields)
        }
        self.limits = limits
        shared = limits.flatMap { [$0.buckets, $0.blocks] }.filter(\.areShared)
        everyRequest = configuration.limits.rate.compactMap { name in limits.first { $0.limit.name == name } }
    }

    /// The limits of a route: those of every request first. `nil` if there are none.
    func limits(of route: Route) -> RouteRateLimits? {
        let listed = route.rate.compactMap { name in limits.first { $0.limit.name == name } }
        guard !listed.isEmpty || !everyRequest.isEmpty else { return nil }
        // Otherwise clients without a session could use up what all users of the route share.
        let isLate = { (limit: RateLimitRuntime) in
            limit.limit.dependsOnSession || limit.limit.subject == .route && route.requiresAuthorization
        }
        return RouteRateLimits(
            key: RateKey(route: route.name, hash: storage.hash), early: everyRequest + listed.filter { !isLate($0) },
            late: listed.filter(isLate))
    }
}

/// The rate limits that count the requests of a route. A class, because a copy would count a reference for each field.
final class RouteRateLimits: Sendable {
    /// The route as what a limit counts by.
    let key: RateKey
    /// The limits that are decided before the session is looked up.
    let early: [RateLimitRuntime]
    /// The limits that are decided with the session.
    let late: [RateLimitRuntime]
    /// The only one of ``early`` or of ``late``, if it counts all requests. Not counted as references.
    let (earlyLimit, lateLimit): (Unmanaged<RateLimitRuntime>?, Unmanaged<RateLimitRuntime>?)

    init(key: RateKey, early: [RateLimitRuntime], late: [RateLimitRuntime]) {
        (self.key, self.early, self.late) = (key, early, late)
        (earlyLimit, lateLimit) = (Self.only(early), Self.only(late))
    }

    private static func only(_ limits: [RateLimitRuntime]) -> Unmanaged<RateLimitRuntime>? {
        limits.count == 1 && !limits[0].isConditional ? Unmanaged.passUnretained(limits[0]) : nil
    }
}

/// A rate limit with the numbers and texts that requests need.
final class RateLimitRuntime: Sendable {
    let limit: RateLimit
    /// Parts of ``limit``, which has references: whether it counts by route, by session or by account, and has conditions.
    let (isOfRoute, isOfSession, isOfAccount, isConditional): (Bool, Bool, Bool, Bool)
    /// Index in ``GatewayConfiguration/rateLimits``.
    let index: Int
    let allowed: CounterHandle
    let rejected: CounterHandle
    let observed: CounterHandle
    let fields: RateFields
    let table: RateLimitTable
    /// The response to a rejected request.
    private let document: ProblemDocument
    private let key: RateKey
    fileprivate let buckets: RateBuckets
    /// Those of the /48 of IPv6 addresses.
    fileprivate let blocks: RateBuckets
    /// The lines that report the limit, up to the number of requests that are left.
    private let linesStart: [UInt8]

    init(
        _ limit: RateLimit, index: Int, _ storage: RateLimitStorage, _ table: RateLimitTable,
        _ metrics: ClientLimitMetrics, fields: RateFields = .rejected
    ) {
        (self.limit, self.index, self.table, self.fields) = (limit, index, table, fields)
        (isOfRoute, isConditional) = (limit.subject == .route, !limit.when.isEmpty)
        (isOfSession, isOfAccount) = (limit.subject == .session, limit.subject == .account)
        allowed = metrics.rate(.allowed, limit.name)
        rejected = metrics.rate(.rejected, limit.name)
        observed = metrics.rate(.observed, limit.name)
        document = ProblemDocument(Problem(.rateLimited), limit: limit.name)
        key = RateKey(limit, hash: storage.hash)
        buckets = RateBuckets(limit, storage: storage)
        blocks = RateBuckets(limit, times: RateKey.blockFactor, storage: storage)
        let policy = buckets.pace.policy(named: limit.name)
        linesStart = Array("RateLimit-Policy: \(policy)\r\nRateLimit: \"\(limit.name)\";r=".utf8)
    }

    /// The response to a rejected request.
    /// - Parameter message: That of the route; `nil` if it has none.
    func document(_ message: String?) -> ProblemDocument {
        message.map { ProblemDocument(Problem(.rateLimited, detail: $0), limit: limit.name) } ?? document
    }

    /// Charges a request: to an IPv6 address and its /48, or to none of them. The /48 first, so that addresses beyond
    /// its limit replace no keys.
    @inline(__always)
    func charge(_ subject: RateKey, now: UInt64) -> RateLimitTable.Charge {
        let key = subject.at(key)
        guard key.block != 0 else { return buckets.charge(key.value, in: table, now: now) }
        let block = blocks.charge(key.block, in: table, now: now)
        guard block.wait == 0 else { return block }
        var charge = buckets.charge(key.value, in: table, now: now)
        if charge.wait > 0 { blocks.refund(key.block, in: table, now: now) }
        charge.isEviction = charge.isEviction || block.isEviction
        return charge
    }

    /// Takes a charge back.
    func refund(_ subject: RateKey, now: UInt64) {
        let key = subject.at(key)
        buckets.refund(key.value, in: table, now: now)
        if key.block != 0 { blocks.refund(key.block, in: table, now: now) }
    }

    /// The lines that report the limit, with their line ends (draft-ietf-httpapi-ratelimit-headers-10). `t` is the number
    /// of seconds until the next request is permitted, or until the burst is complete again if requests are left.
    func fieldLines(_ charge: RateLimitTable.Charge) -> [UInt8] {
        let left = charge.wait > 0 ? 0 : buckets.pace.remaining(after: charge)
        let time = RatePace.seconds(charge.wait > 0 ? charge.wait : charge.used)
        var nothing: Void = ()
        // Two numbers of at most 20 digits.
        return [UInt8](reserving: linesStart.count + 45, from: &nothing) { writer, _ in
            writer.append(linesStart)
            writer.append(decimal: Int(clamping: left))
            writer.append(";t=")
            writer.append(decimal: Int(clamping: time))
            writer.append("\r\n")
        }
    }
}
