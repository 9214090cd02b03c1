import AsyncHTTPClient
import CloakroomCore
import CloakroomTelemetry
import Foundation
import NIOHTTP1
import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("Trends in the status document")
struct StatusTrendDocumentTests {
    private let start = ContinuousClock.now
    private let made = SampleStatus()

    private func trends() -> StatusTrends {
        let trends = StatusTrends(startedAt: start, time: SampleStatus.now)
        for seconds in [10, 20] {
            trends.append(
                StatusSample(made.registry.snapshot()), at: start + .seconds(seconds),
                time: SampleStatus.now + .seconds(seconds))
        }
        return trends
    }

    @Test("The gateway comes first; routes and targets are listed only on request")
    func order() {
        made.served(20)
        made.served(10, route: "another")
        made.sent(5)
        let trends = trends()
        expect(trends.documents(all: false).count, equals: 1)
        let all = trends.documents(all: true)
        expect(all.map(\.route), equals: [nil, "another", "episodes", nil])
        expect(all.map(\.target), equals: [nil, nil, nil, "10.0.0.1:80"])
        expect(all.last?.upstream, equals: "api")
        expect(all[0].quarterHour.perSecond, equals: [3, 0])
        expect(all[0].quarterHour.intervalSeconds, equals: 10)
        expect(all[0].quarterHour.errorShare, equals: [0, nil])
        expect(all[0].quarterHour.p99Ms[1], equals: nil)
        expect(all[0].quarterHour.connections, equals: [0, 0])
        expect(all[1].quarterHour.connections, equals: nil)
        expect(all[0].day.intervalSeconds, equals: 900)
        expect(empty: all[0].day.perSecond)
    }

    @Test("Percentiles above the highest bucket are marked by their bound")
    func bound() {
        made.served(10, milliseconds: 12_000)
        let values = trends().documents(all: false)[0].quarterHour
        expect(values.boundMs, equals: 10_000)
        expect(values.p50Ms.first, equals: 10_000)
        made.served(1, route: "fast")
        expect(trends().documents(all: true)[2].quarterHour.boundMs, equals: nil)
    }

    @Test("/status.json has the trend of the gateway, and all trends on request")
    func served() async throws {
        made.served(1)
        try await RunningAdminServer.run(made.registry, status: made.source) { address in
            for (query, isAll) in [("", false), ("?trends=all", true)] {
                let (response, body) = try await RunningAdminServer.send(.GET, address + "/status.json" + query)
                expect(response.status.code, equals: 200)
                let document = try require(
                    JSONSerialization.jsonObject(with: Data(body)) as? [String: Any])
                let trends = try require(document["trends"] as? [[String: Any]])
                expect(isAll ? !trends.isEmpty : trends.count == 1)
                let quarter = try require(trends.first?["quarter_hour"] as? [String: Any])
                expect(
                    Set(quarter.keys).isSuperset(of: [
                        "interval_seconds", "per_second", "error_share", "p50_ms", "p99_ms",
                    ]))
                expect(document["trends_not_kept"] as? Int, equals: 0)
            }
        }
    }

    @Test("Routes without a trend are counted, and their details state it")
    func omitted() throws {
        for route in 0..<(StatusTrends.maxSubjects + 3) { made.served(1, route: "r\(1_000 + route)") }
        let reporter = StatusReporter(
            source: made.source, registry: made.registry, startedAt: SampleStatus.now, instant: start)
        reporter.takeSample(at: start + .seconds(10))
        let last = "r\(1_000 + StatusTrends.maxSubjects + 2)"
        expect(reporter.trends.omittedCount, equals: 3)
        expect(reporter.trends.isOmitted(.route(last)))
        expect(!reporter.trends.isOmitted(.route("r1000")))
        let document = reporter.document(
            readiness: ReadinessReport(checks: []), now: SampleStatus.now, instant: start + .seconds(10))
        expect(document.trendsNotKept, equals: 3)
        for (name, isOmitted) in [(last, true), ("r1000", false)] {
            let details = try require(reporter.details(ofRoute: name, instant: start + .seconds(10)))
            expect(details.trendKept != isOmitted)
            expect(details.trend.quarterHour.perSecond.isEmpty, equals: isOmitted)
        }
    }
}
