import CloakroomTelemetry
import Foundation
import Testing

@testable import CloakroomAdmin

@Suite("Lines of the status page")
struct StatusSparklineTests {
    private func line(_ values: [Float?], slots: Int = 4) -> StatusSparkline {
        StatusSparkline("Requests", "15 min", values, slots: slots, format: StatusFormatter.rate)
    }

    @Test("Values are drawn from left to right, the highest at the top")
    func shape() {
        #expect(line([0, 1, 2, 4]).path == "M0 100l0 0L200 75L400 50L600 0")
        #expect(line([0, 1, 2, 4]).label == "Requests, last 15 min: lowest 0, highest 4.0")
    }

    @Test("A period that is not full is drawn at its end")
    func young() {
        #expect(line([2, 2]).path == "M400 0l0 0L600 0")
    }

    @Test("A missing value interrupts the line")
    func gap() {
        #expect(line([1, nil, 1, 1]).path == "M0 0l0 0M400 0l0 0L600 0")
    }

    @Test("Zeros are at the bottom, and without values there is no line")
    func nothing() {
        #expect(line([0, 0, 0, 0]).path == "M0 100l0 0L200 100L400 100L600 100")
        #expect(!line([]).hasPath)
        #expect(line([nil]).label == "Requests, last 15 min: no values yet")
    }

    @Test("More values than fit are cut at the old end, so that a path is bounded")
    func bound() {
        #expect(line(Array(repeating: 1, count: 1_000)).path == line([1, 1, 1, 1]).path)
        #expect(line([.infinity, 1]).path == "M600 100l0 0")
    }

    @Test("A percentile above the highest bucket is marked as a lower bound")
    func lowerBound() throws {
        let made = SampleStatus()
        let start = ContinuousClock.now
        let trends = StatusTrends(startedAt: start, time: SampleStatus.now)
        made.served(90)
        made.served(10, milliseconds: 30_000)
        trends.append(StatusSample(made.registry.snapshot()), at: start + .seconds(10), time: SampleStatus.now)
        let charts = StatusTrendChart.all(trends.trend(of: .all))
        let p50 = try #require(charts.first { $0.name == "p50" })
        let p99 = try #require(charts.first { $0.name == "p99" })
        #expect(!p50.latest.contains(">"))
        #expect(p99.latest == ">\u{202F}10\u{202F}s")
        #expect(p99.lines.first?.highest == p99.latest)
    }

    @Test("The page has one line per value and period, described for readers who do not see it")
    func page() throws {
        let made = SampleStatus()
        let start = ContinuousClock.now
        let trends = StatusTrends(startedAt: start, time: SampleStatus.now)
        made.served(20)
        trends.append(StatusSample(made.registry.snapshot()), at: start + .seconds(900), time: SampleStatus.now)
        let html = try #require(StatusPage(made.document(), trend: trends.trend(of: .all)).html())
        #expect(html.components(separatedBy: "<svg role=\"img\" aria-label=").count - 1 == 10)
        #expect(html.contains("Upstream connections, last 24 h: lowest 0, highest 0"))
        #expect(!html.contains(" style="))
    }
}
