/// The trend of the gateway, a route or a target, for `/status.json`. All lists are oldest first and have one value per
/// interval; the last interval ended at most 10 s ago, or 15 minutes ago for ``day``.
struct StatusTrendDocument: Sendable, Encodable {
    /// The name of the route; absent for the gateway and for a target.
    var route: String?
    /// The upstream and the address without scheme of a target; absent otherwise.
    var upstream: String?
    var target: String?
    /// The last 15 minutes.
    var quarterHour: Values
    /// The last 24 hours.
    var day: Values

    /// The values of one period. `null` where there were no requests.
    struct Values: Sendable, Encodable {
        var intervalSeconds: Int64
        var perSecond: [Double]
        var errorShare: [Double?]
        var p50Ms: [Double?]
        var p99Ms: [Double?]
        /// Connections to upstreams at the end of the interval; absent for a route or target.
        var connections: [Double]?
        /// Percentiles of at least this number of milliseconds are lower bounds; absent if none is.
        var boundMs: Double?

        init(_ points: [StatusTrendPoint], interval: Duration) {
            func list(_ value: (StatusTrendPoint) -> Float?) -> [Double?] {
                points.map { value($0).map { Double($0).rounded(places: 3) } }
            }
            intervalSeconds = interval.components.seconds
            perSecond = list(\.perSecond).map { $0 ?? 0 }
            errorShare = list(\.errorShare)
            p50Ms = list(\.p50Milliseconds)
            p99Ms = list(\.p99Milliseconds)
            let connections = list(\.connections).compactMap(\.self)
            self.connections = connections.isEmpty ? nil : connections
            boundMs = points.compactMap { point in
                point.isP99LowerBound
                    ? (point.isP50LowerBound ? point.p50Milliseconds : point.p99Milliseconds).map { Double($0) } : nil
            }.min()
        }
    }

    init(_ subject: StatusSubject, _ trend: StatusTrend) {
        switch subject {
        case .all: break
        case .route(let name): route = name
        case .target(let key): (upstream, target) = (key.upstream, key.authority)
        }
        quarterHour = Values(trend.quarter, interval: StatusHistory.interval)
        day = Values(trend.day, interval: StatusTrends.dayInterval)
    }
}

extension StatusTrends {
    /// The trends for `/status.json`: that of the gateway first.
    /// - Parameter all: Whether those of routes and targets are included.
    func documents(all: Bool) -> [StatusTrendDocument] {
        let trends = trends()
        let others = all ? trends.keys.filter { $0 != .all }.sorted { $0.order < $1.order } : []
        return ([.all] + others).map { StatusTrendDocument($0, trends[$0] ?? StatusTrend()) }
    }
}

extension StatusSubject {
    /// Routes before targets, each by name.
    fileprivate var order: (Int, String, String) {
        switch self {
        case .all: (0, "", "")
        case .route(let name): (1, name, "")
        case .target(let key): (2, key.upstream, key.authority)
        }
    }
}
