import CloakroomCore
import CloakroomTelemetry
import Synchronization

/// A route or target with values of its own, or the whole gateway.
enum StatusSubject: Sendable, Hashable {
    case all
    /// By configured name.
    case route(String)
    case target(StatusTargetKey)

    /// The account endpoints of the gateway, under the name that they have in labels.
    static let accounts = StatusSubject.route("(accounts)")
}

/// A target of an upstream.
struct StatusTargetKey: Sendable, Hashable {
    /// The configured name of the upstream.
    var upstream: String
    /// The address without scheme: `host:port` or `unix:/path`.
    var authority: String

    /// - Parameter address: The configured address: `http://host:port`, `unix:/path`.
    init(upstream: String, address: String) {
        self.upstream = upstream
        authority = address.firstRange(of: "://").map { String(address[$0.upperBound...]) } ?? address
    }

    /// The target in the labels of `http_client_request_duration_seconds`.
    init?(labels: [String: String]) {
        guard let upstream = labels["upstream"], let address = labels["server_address"] else { return nil }
        self.upstream = upstream
        guard let port = labels["server_port"], !port.isEmpty else {
            authority = "unix:\(address)"
            return
        }
        authority = address.contains(":") ? "[\(address)]:\(port)" : "\(address):\(port)"
    }
}

/// The kind of a failure. All members are labels of metrics: closed sets, without data of the request.
struct StatusFailureKind: Sendable, Hashable {
    /// Three digits; empty if there was no response.
    var status: String
    /// The label `error_type`, such as `upstream_timeout`, or a status.
    var reason: String
}

/// Failures of one kind that were seen in consecutive samples.
struct StatusFailure: Sendable, Equatable {
    var kind: StatusFailureKind
    /// The time of the first and the last sample with such a failure.
    var first: WallTime
    var last: WallTime
    var count: UInt64
}

/// The values of one period. Percentiles and shares are `nil` if there were no requests.
struct StatusTrendPoint: Sendable, Equatable {
    var perSecond: Float
    /// 0...1.
    var errorShare: Float?
    var p50Milliseconds: Float?
    var p99Milliseconds: Float?
    /// Whether the percentile is above the highest bucket, whose bound is then the value.
    var isP50LowerBound: Bool
    var isP99LowerBound: Bool
    /// Connections to upstreams at the end of the period; `nil` for a single route or target.
    var connections: Float?

    init(_ stats: RequestStats, over duration: Duration, connections: UInt64? = nil) {
        perSecond = Float(Double(stats.count) / (duration / .seconds(1)))
        errorShare = stats.failureShare.map { Float($0) }
        let (p50, p99) = (stats.durations.quantile(0.5), stats.durations.quantile(0.99))
        p50Milliseconds = p50.map { Float($0.seconds * 1_000) }
        p99Milliseconds = p99.map { Float($0.seconds * 1_000) }
        isP50LowerBound = p50?.isLowerBound == true
        isP99LowerBound = p99?.isLowerBound == true
        self.connections = connections.map { Float($0) }
    }
}

/// The values of two periods, oldest first. The number of points is bounded by ``StatusTrends``.
struct StatusTrend: Sendable, Equatable {
    /// One point per 10 s, over 15 minutes.
    var quarter: [StatusTrendPoint] = []
    /// One point per 15 minutes, over 24 hours.
    var day: [StatusTrendPoint] = []
}

/// The trends of the gateway, its routes and its targets, and their recent failures. Kept in memory only and bounded:
/// at most 256 routes and targets with 186 points each, about 2 MB. Failures are kept of all routes and targets, the
/// latest 20 of each, so that a page never denies one.
///
/// All values are differences of metrics between two samples, so requests cost nothing. A failure is listed up to 10 s
/// after it occurred, without its exact time.
final class StatusTrends: Sendable {
    static let quarterPoints = 90
    static let dayPoints = 96
    static let dayInterval: Duration = .seconds(900)
    static let maxSubjects = 256
    static let maxFailures = 20

    private struct State {
        var trends: [StatusSubject: StatusTrend] = [:]
        /// The latest last.
        var failures: [StatusSubject: [StatusFailure]] = [:]
        var last: StatusSample
        var lastAt: ContinuousClock.Instant
        var lastTime: WallTime
        var dayStart: StatusSample
        var dayStartAt: ContinuousClock.Instant
        /// Routes and targets of the last sample without a trend.
        var omitted: Set<StatusSubject> = []
    }

    private let state: Mutex<State>

    init(startedAt: ContinuousClock.Instant, time: WallTime) {
        state = Mutex(
            State(
                last: StatusSample(), lastAt: startedAt, lastTime: time, dayStart: StatusSample(),
                dayStartAt: startedAt))
    }

    /// The number of routes and targets with values.
    var count: Int { state.withLock { $0.trends.count { $0.key != .all } } }

    /// The trend of a subject; empty if there are no values.
    func trend(of subject: StatusSubject) -> StatusTrend { state.withLock { $0.trends[subject] ?? .init() } }

    func trends() -> [StatusSubject: StatusTrend] { state.withLock { $0.trends } }

    /// The number of routes and targets whose trend is not kept, because there are too many.
    var omittedCount: Int { state.withLock { $0.omitted.count } }

    /// Whether the trend of a subject is not kept, because there are too many.
    func isOmitted(_ subject: StatusSubject) -> Bool { state.withLock { $0.omitted.contains(subject) } }

    /// The recent failures of a subject, the latest first.
    func failures(of subject: StatusSubject) -> [StatusFailure] {
        state.withLock { ($0.failures[subject] ?? []).reversed() }
    }

    /// The recent failures of all routes with their names, in no order.
    func routeFailures() -> [(String, StatusFailure)] {
        state.withLock { state in
            state.failures.flatMap { subject, failures -> [(String, StatusFailure)] in
                guard case .route(let name) = subject else { return [] }
                return failures.map { (name, $0) }
            }
        }
    }

    /// Adds a sample. Samples must be added in order of time; a pause between two becomes one point.
    func append(_ sample: StatusSample, at now: ContinuousClock.Instant, time: WallTime) {
        state.withLock { state in
            guard now > state.lastAt else { return }
            let change = sample.subtracting(state.last)
            let duration = now - state.lastAt
            let isNewDayPoint = now - state.dayStartAt >= Self.dayInterval
            let dayChange = isNewDayPoint ? sample.subtracting(state.dayStart) : StatusSample()
            let dayDuration = now - state.dayStartAt
            // Series of removed routes and targets disappear from the metrics, and here too.
            let present = sample.subjects
            let names = Set(present)
            state.trends = state.trends.filter { names.contains($0.key) }
            state.failures = state.failures.filter { names.contains($0.key) }
            state.omitted = []
            for subject in present {
                guard
                    state.trends[subject] != nil || subject == .all || state.trends.count <= Self.maxSubjects
                else {
                    state.omitted.insert(subject)
                    continue
                }
                let connections = subject == .all ? sample.connections : nil
                var trend = state.trends.removeValue(forKey: subject) ?? StatusTrend()
                trend.quarter.append(
                    StatusTrendPoint(change.stats(of: subject), over: duration, connections: connections))
                trend.quarter.keepLast(Self.quarterPoints)
                if isNewDayPoint {
                    trend.day.append(
                        StatusTrendPoint(dayChange.stats(of: subject), over: dayDuration, connections: connections))
                    trend.day.keepLast(Self.dayPoints)
                }
                state.trends[subject] = trend
            }
            for (failure, count) in change.failures where count > 0 {
                guard names.contains(failure.subject) else { continue }
                state.failures[failure.subject, default: []].add(failure.kind, count, at: time, after: state.lastTime)
            }
            state.last = sample
            state.lastAt = now
            state.lastTime = time
            if isNewDayPoint {
                state.dayStart = sample
                state.dayStartAt = now
            }
        }
    }
}

extension [StatusFailure] {
    /// A failure that was also in the preceding sample continues its entry.
    fileprivate mutating func add(
        _ kind: StatusFailureKind, _ count: UInt64, at time: WallTime, after preceding: WallTime
    ) {
        if let index = lastIndex(where: { $0.kind == kind && $0.last == preceding }) {
            var entry = remove(at: index)
            entry.last = time
            entry.count += count
            append(entry)
        } else {
            append(StatusFailure(kind: kind, first: time, last: time, count: count))
        }
        keepLast(StatusTrends.maxFailures)
    }
}

extension Array {
    fileprivate mutating func keepLast(_ limit: Int) {
        if count > limit { removeFirst(count - limit) }
    }
}

extension StatusSample {
    /// The whole gateway, and all routes and targets with requests; in a fixed order, so that the same ones are kept if
    /// there are too many.
    fileprivate var subjects: [StatusSubject] {
        [.all] + routes.keys.sorted().map { .route($0) }
            + targets.keys.sorted { ($0.upstream, $0.authority) < ($1.upstream, $1.authority) }.map { .target($0) }
    }

    fileprivate func stats(of subject: StatusSubject) -> RequestStats {
        switch subject {
        case .all: total
        case .route(let name): routes[name] ?? RequestStats()
        case .target(let key): targets[key] ?? RequestStats()
        }
    }
}
