import CloakroomCore
import CloakroomTelemetry
import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("Trends of the status page")
struct StatusTrendsTests {
    private let start = ContinuousClock.now
    private let made = SampleStatus()

    /// Adds a sample of the current metrics, this many seconds after the start.
    private func append(to trends: StatusTrends, after seconds: Int) {
        trends.append(
            StatusSample(made.registry.snapshot()), at: start + .seconds(seconds),
            time: SampleStatus.now + .seconds(seconds))
    }

    private var trends: StatusTrends { StatusTrends(startedAt: start, time: SampleStatus.now) }

    @Test("A point is the change since the previous sample")
    func points() throws {
        let trends = trends
        made.served(15)
        made.served(5, status: 503)
        made.gauge("cloakroom_upstream_connections", [("upstream", "api"), ("state", "idle")], 7)
        append(to: trends, after: 10)
        append(to: trends, after: 20)
        let points = trends.trend(of: .all).quarter
        expect(points.map(\.perSecond), equals: [2, 0])
        expect(points.map(\.errorShare), equals: [0.25, nil])
        expect(points.map(\.connections), equals: [7, 7])
        // All in the bucket from 5 to 10 ms.
        expect(points[0].p50Milliseconds, equals: 7.5)
        expect(points[1].p99Milliseconds, equals: nil)
        expect(trends.trend(of: .route("episodes")).quarter.map(\.perSecond), equals: [2, 0])
        expect(trends.trend(of: .route("episodes")).quarter[0].connections, equals: nil)
    }

    @Test("Failures are listed of routes that have no trend because there are too many")
    func failuresWithoutTrend() {
        let trends = trends
        for index in 0..<(StatusTrends.maxSubjects + 10) { made.served(1, route: "r\(1_000 + index)", status: 500) }
        append(to: trends, after: 10)
        expect(trends.count, equals: StatusTrends.maxSubjects)
        let last = StatusSubject.route("r\(1_000 + StatusTrends.maxSubjects + 9)")
        expect(empty: trends.trend(of: last).quarter)
        expect(trends.failures(of: last).map(\.count), equals: [1])
    }

    @Test("15 minutes of points at 10 s and 24 hours of points at 15 minutes are kept, and no more")
    func bounds() {
        let trends = trends
        for tick in 1...9_000 {
            if tick % 90 == 1 { made.served(900) }
            append(to: trends, after: tick * 10)
        }
        let trend = trends.trend(of: .all)
        expect(trend.quarter.count, equals: 90)
        expect(trend.day.count, equals: 96)
        expect(trend.day.allSatisfy { $0.perSecond == 1 })
        expect(trend.quarter.map(\.perSecond).reduce(0, +), equals: 90)
    }

    @Test("Failures are counted by route and by target with a fixed reason, and continue while they last")
    func failures() {
        let trends = trends
        made.served(3, status: 502)
        made.sent(2, status: "", error: "upstream_unreachable")
        append(to: trends, after: 10)
        made.served(4, status: 502)
        append(to: trends, after: 20)
        append(to: trends, after: 30)
        made.served(1, status: 502)
        append(to: trends, after: 40)
        let route = trends.failures(of: .route("episodes"))
        expect(route.map(\.count), equals: [1, 7])
        expect(route.last?.first, equals: SampleStatus.now + .seconds(10))
        expect(route.last?.last, equals: SampleStatus.now + .seconds(20))
        expect(route.first?.kind, equals: StatusFailureKind(status: "502", reason: ""))
        let target = trends.failures(of: .target(StatusTargetKey(upstream: "api", address: "http://10.0.0.1:80")))
        expect(target.map(\.kind), equals: [StatusFailureKind(status: "", reason: "upstream_unreachable")])
        expect(target.map(\.count), equals: [2])
    }

    @Test("Errors that the client caused are not failures of a route")
    func clients() {
        let trends = trends
        made.served(3, status: 404)
        made.served(3, status: 401)
        append(to: trends, after: 10)
        expect(trends.failures(of: .route("episodes")), equals: [])
    }

    @Test("At most 20 failures of a route are kept, the latest first")
    func failureBound() {
        let trends = trends
        for tick in 1...30 {
            made.served(1, status: 500 + tick)
            append(to: trends, after: tick * 10)
        }
        let failures = trends.failures(of: .route("episodes"))
        expect(failures.count, equals: 20)
        expect(failures.first?.kind.status, equals: "530")
    }

    @Test("At most 256 routes and targets have trends, in addition to the gateway")
    func subjects() {
        let trends = trends
        for route in 0..<400 { made.served(1, route: "route-\(route)") }
        append(to: trends, after: 10)
        append(to: trends, after: 20)
        expect(trends.count, equals: 256)
        expect(trends.trend(of: .all).quarter.first?.perSecond, equals: 40)
    }

    @Test("Targets are found by their configured address: names, IPv4, IPv6 and sockets")
    func targets() {
        for (address, labels) in [
            ("http://api.test:80", ["server_address": "api.test", "server_port": "80"]),
            ("https://[::1]:8443", ["server_address": "::1", "server_port": "8443"]),
            ("unix:/run/api.sock", ["server_address": "/run/api.sock", "server_port": ""]),
        ] {
            let key = StatusTargetKey(labels: labels.merging(["upstream": "api"]) { $1 })
            expect(key, equals: StatusTargetKey(upstream: "api", address: address), "\(address)")
        }
    }
}
