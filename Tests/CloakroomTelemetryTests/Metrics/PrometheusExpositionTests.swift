import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Prometheus text format")
struct PrometheusTextFormatTests {
    private let registry = PrometheusRegistry()

    @Test("Families are grouped and sorted, and have HELP and TYPE")
    func golden() {
        registry.gauge("zoo", help: "Animals.").set(-3)
        let requests = registry.counter("app_requests_total", help: "Requests.", labels: [("b", "2"), ("a", "1")])
        requests.increment(by: 41)
        requests.increment()
        registry.counter("app_requests_total", help: "Requests.", labels: [("a", "0"), ("b", "2")]).increment()
        registry.floatingPointGauge("load", help: "Load.").set(0.25)
        expect(
            registry.text,
            equals: """
                # HELP app_requests_total Requests.
                # TYPE app_requests_total counter
                app_requests_total{a="0",b="2"} 1
                app_requests_total{a="1",b="2"} 42
                # HELP cloakroom_telemetry_dropped_total Dropped telemetry, by signal.
                # TYPE cloakroom_telemetry_dropped_total counter
                cloakroom_telemetry_dropped_total{signal="metrics"} 0
                # HELP load Load.
                # TYPE load gauge
                load 0.25
                # HELP zoo Animals.
                # TYPE zoo gauge
                zoo -3

                """)
    }

    @Test("Buckets are cumulative, +Inf is the count and the sum is in seconds")
    func histogram() {
        let duration = registry.histogram("took_seconds", help: "Time.", labels: [("route", "r")])
        for nanoseconds: UInt64 in [0, 5_000_000, 5_000_001, 80_000_000, 10_000_000_000, 10_000_000_001] {
            duration.record(nanoseconds: nanoseconds)
        }
        let lines = registry.text.split(separator: "\n").filter { $0.hasPrefix("took_seconds") }.map(String.init)
        expect(
            lines,
            equals: [
                #"took_seconds_bucket{route="r",le="0.0001"} 1"#,
                #"took_seconds_bucket{route="r",le="0.00025"} 1"#,
                #"took_seconds_bucket{route="r",le="0.0005"} 1"#,
                #"took_seconds_bucket{route="r",le="0.00075"} 1"#,
                #"took_seconds_bucket{route="r",le="0.001"} 1"#,
                #"took_seconds_bucket{route="r",le="0.0025"} 1"#,
                #"took_seconds_bucket{route="r",le="0.005"} 2"#,
                #"took_seconds_bucket{route="r",le="0.01"} 3"#,
                #"took_seconds_bucket{route="r",le="0.025"} 3"#,
                #"took_seconds_bucket{route="r",le="0.05"} 3"#,
                #"took_seconds_bucket{route="r",le="0.075"} 3"#,
                #"took_seconds_bucket{route="r",le="0.1"} 4"#,
                #"took_seconds_bucket{route="r",le="0.25"} 4"#,
                #"took_seconds_bucket{route="r",le="0.5"} 4"#,
                #"took_seconds_bucket{route="r",le="0.75"} 4"#,
                #"took_seconds_bucket{route="r",le="1"} 4"#,
                #"took_seconds_bucket{route="r",le="2.5"} 4"#,
                #"took_seconds_bucket{route="r",le="5"} 4"#,
                #"took_seconds_bucket{route="r",le="7.5"} 4"#,
                #"took_seconds_bucket{route="r",le="10"} 5"#,
                #"took_seconds_bucket{route="r",le="+Inf"} 6"#,
                #"took_seconds_sum{route="r"} 20.090000002"#,
                #"took_seconds_count{route="r"} 6"#,
            ])
    }

    @Test("Label values and help texts are escaped")
    func escaping() {
        registry.gauge("g", help: "one\\two\nthree \"quoted\"", labels: [("l", "a\\b\"c\nd é")]).set(1)
        expect(registry.text.contains("# HELP g one\\\\two\\nthree \"quoted\"\n"))
        expect(registry.text.contains(#"g{l="a\\b\"c\nd é"} 1"# + "\n"))
    }

    @Test("Infinite and NaN values are written as Prometheus writes them")
    func specialNumbers() {
        registry.floatingPointGauge("g", help: "G.", labels: [("v", "nan")]).set(Double.nan)
        registry.floatingPointGauge("g", help: "G.", labels: [("v", "up")]).set(Double.infinity)
        registry.floatingPointGauge("g", help: "G.", labels: [("v", "down")]).set(-Double.infinity)
        expect(registry.text.contains("g{v=\"down\"} -Inf\ng{v=\"nan\"} NaN\ng{v=\"up\"} +Inf\n"))
    }

    @Test("Values set by scrape handlers are updated at each scrape")
    func collectors() {
        let scrapes = registry.gauge("scrapes", help: "Scrapes.")
        registry.onScrape { scrapes.add(1) }
        expect(registry.text.contains("scrapes 1\n"))
        expect(registry.text.contains("scrapes 2\n"))
    }

    @Test("The registry uses configured bounds, up to 31 of them")
    func configuredBounds() {
        let registry = PrometheusRegistry(buckets: [0.00005, 0.3, 60])
        registry.histogram("took_seconds", help: "Time.").record(nanoseconds: 300_000_000)
        let lines = registry.text.split(separator: "\n").map(String.init)
        expect(
            lines.filter { $0.hasPrefix("took_seconds_bucket") },
            equals: [
                #"took_seconds_bucket{le="5e-05"} 0"#, #"took_seconds_bucket{le="0.3"} 1"#,
                #"took_seconds_bucket{le="60"} 1"#, #"took_seconds_bucket{le="+Inf"} 1"#,
            ])
        let most = PrometheusRegistry(buckets: (1...31).map(Double.init)).histogram("took_seconds", help: "Time.")
        for seconds: UInt64 in [31, 32] { most.record(nanoseconds: seconds * 1_000_000_000) }
        expect(most.snapshot().bounds.last, equals: 31)
        expect(most.snapshot().cumulative.suffix(3), equals: [0, 1, 2])
        expect(most.count, equals: 2)
    }
}
