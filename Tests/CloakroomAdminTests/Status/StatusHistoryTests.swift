import CloakroomTelemetry
import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("History of the status page")
struct StatusHistoryTests {
    private let start = ContinuousClock.now

    /// The given number of requests of one route so far.
    private func sample(_ count: Int) -> StatusSample {
        let registry = PrometheusRegistry()
        let histogram = registry.histogram(
            "http_server_request_duration_seconds", help: "", labels: [("route", "episodes")])
        for _ in 0..<count { histogram.record(nanoseconds: 1_000_000) }
        return StatusSample(registry.snapshot())
    }

    private func recent(_ history: StatusHistory, _ count: Int, after seconds: Int) -> (UInt64?, Double) {
        let window = history.window(to: sample(count), at: start + .seconds(seconds))
        return (window.change.routes["episodes"]?.count, window.duration / .seconds(1))
    }

    @Test("Shortly after the start the window covers all requests")
    func young() {
        let history = StatusHistory(startedAt: start)
        expect(recent(history, 7, after: 4) == (7, 4))
    }

    @Test("The shortest window is one second, so that the first requests do not cause high rates")
    func shortest() {
        expect(recent(StatusHistory(startedAt: start), 7, after: 0) == (7, 1))
    }

    @Test("The window covers five minutes, and the number of samples is bounded")
    func sliding() {
        let history = StatusHistory(startedAt: start)
        // Ten requests every 10 s, for 20 minutes.
        for tick in 1...120 { history.append(sample(tick * 10), at: start + .seconds(tick * 10)) }
        expect(recent(history, 1_204, after: 1_204) == (304, 304))
        #expect(history.count <= 32)
    }

    @Test("After a pause only requests after the last sample are in the window")
    func pause() {
        let history = StatusHistory(startedAt: start)
        history.append(sample(100), at: start + .seconds(10))
        expect(recent(history, 130, after: 4_000) == (30, 3_990))
    }

    @Test("A route that is new within the window is counted from zero, and a count is never negative")
    func changes() {
        let history = StatusHistory(startedAt: start)
        let registry = PrometheusRegistry()
        for tick in 0..<31 { history.append(sample(5), at: start + .seconds(10 * tick)) }
        registry.histogram("http_server_request_duration_seconds", help: "", labels: [("route", "video")])
            .record(nanoseconds: 1)
        let window = history.window(to: StatusSample(registry.snapshot()), at: start + .seconds(301))
        expect(window.change.routes["video"]?.count, equals: 1)
        expect(recent(history, 3, after: 301).0, equals: 0)
        expect(window.rate(602), equals: 2)
    }
}
