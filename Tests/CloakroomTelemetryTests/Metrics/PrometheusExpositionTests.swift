import Testing

@testable import CloakroomTelemetry

@Suite("Prometheus text format")
struct PrometheusTextFormatTests {
    private func text(_ registry: PrometheusRegistry) -> String {
        String(decoding: registry.exposition(), as: UTF8.self)
    }

    @Test("Families are grouped and sorted, and have HELP and TYPE")
    func golden() {
        let registry = PrometheusRegistry()
        registry.gauge("zoo", help: "Animals.").set(-3)
        let requests = registry.counter("app_requests_total", help: "Requests.", labels: [("b", "2"), ("a", "1")])
        requests.increment(by: 41)
        requests.increment()
        registry.counter("app_requests_total", help: "Requests.", labels: [("a", "0"), ("b", "2")]).increment()
        registry.floatingPointGauge("load", help: "Load.").set(0.25)
        #expect(
            text(registry) == """
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
        let registry = PrometheusRegistry()
        let duration = registry.histogram("took_seconds", help: "Time.", labels: [("route", "r")])
        for nanoseconds: UInt64 in [0, 5_000_000, 5_000_001, 80_000_000, 10_000_000_000, 10_000_000_001] {
            duration.record(nanoseconds: nanoseconds)
        }
        let lines = text(registry).split(separator: "\n").filter { $0.hasPrefix("took_seconds") }.map(String.init)
        #expect(
            lines == [
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
        let registry = PrometheusRegistry()
        registry.gauge("g", help: "one\\two\nthree \"quoted\"", labels: [("l", "a\\b\"c\nd é")]).set(1)
        #expect(text(registry).contains("# HELP g one\\\\two\\nthree \"quoted\"\n"))
        #expect(text(registry).contains(#"g{l="a\\b\"c\nd é"} 1"# + "\n"))
    }

    @Test("Infinite and NaN values are written as Prometheus writes them")
    func specialNumbers() {
        let registry = PrometheusRegistry()
        registry.floatingPointGauge("g", help: "G.", labels: [("v", "nan")]).set(Double.nan)
        registry.floatingPointGauge("g", help: "G.", labels: [("v", "up")]).set(Double.infinity)
        registry.floatingPointGauge("g", help: "G.", labels: [("v", "down")]).set(-Double.infinity)
        #expect(text(registry).contains("g{v=\"down\"} -Inf\ng{v=\"nan\"} NaN\ng{v=\"up\"} +Inf\n"))
    }

    @Test("Values set by scrape handlers are updated at each scrape")
    func collectors() {
        let registry = PrometheusRegistry()
        let scrapes = registry.gauge("scrapes", help: "Scrapes.")
        registry.onScrape { scrapes.add(1) }
        #expect(text(registry).contains("scrapes 1\n"))
        #expect(text(registry).contains("scrapes 2\n"))
    }
}

@Suite("Exposition format by Accept")
struct ExpositionFormatTests {
    @Test(
        "OpenMetrics if the client lists it and does not prefer text",
        arguments: [
            // The Accept fields of Prometheus 2.x, and of 3.x with and without native histograms.
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                + "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
                + "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
                + "text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,"
                + "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            "application/openmetrics-text",
            "APPLICATION/OpenMetrics-Text ; Version=\"1.0.0\" ; charset=utf-8",
            "text/plain;q=0.5, application/openmetrics-text;q=0.501",
            "application/openmetrics-text;q=0.5, text/*;q=0.9, text/plain;version=0.0.4;q=0.1",
            "text/plain, application/openmetrics-text",
            "x/y;a=\"1,2;\\\"\", application/openmetrics-text;version=1.0.0",
            "application/openmetrics-text;q=0.2, text/plain;q=7",
        ])
    func openMetrics(accept: String) {
        #expect(ExpositionFormat(accept: accept) == .openMetrics)
    }

    @Test(
        "Text 0.0.4 for all other clients",
        arguments: [
            nil, "", ",", ";", "*/*", "text/plain", "text/html,application/xhtml+xml,*/*;q=0.8",
            "application/json", "application/*",
            "application/openmetrics-text;version=0.0.1", "application/openmetrics-text;version=2.0.0",
            "application/openmetrics-text;q=0", "application/openmetrics-text;q=0.000, text/plain;q=0.1",
            "application/openmetrics-text;q=0.4, text/plain;version=0.0.4;q=0.5",
            "application/openmetrics-text;q=0.4, text/*;q=0.5", "application/openmetrics-text;q=0.4, */*",
            "application/openmetrics-text;q=2", "application/openmetrics-text;q=-1", "application/openmetrics-text;q=x",
            "application/openmetrics-text;q=", "application/openmetrics-text;q=0.1234",
            "application/openmetrics-text;q=1.001", "application/openmetrics-texts",
            "application/openmetrics-text;a=e\u{301}", "application/openmetrics-text\u{301}",
            "\"application/openmetrics-text",
        ])
    func text(accept: String?) {
        #expect(ExpositionFormat(accept: accept) == .text)
    }

    @Test("The content type names the format")
    func contentTypes() {
        let registry = PrometheusRegistry()
        let plain = registry.exposition(accept: nil)
        #expect(plain.contentType == "text/plain; version=0.0.4; charset=utf-8")
        #expect(plain.body == registry.exposition())
        let open = registry.exposition(accept: "application/openmetrics-text")
        #expect(open.contentType == "application/openmetrics-text; version=1.0.0; charset=utf-8")
        #expect(String(decoding: open.body, as: UTF8.self).hasSuffix("\n# EOF\n"))
    }
}

@Suite("OpenMetrics")
struct OpenMetricsTests {
    private func text(_ registry: PrometheusRegistry) -> String {
        String(decoding: registry.exposition(as: .openMetrics), as: UTF8.self)
    }

    @Test("A counter's family lacks _total, units are named, and the end is marked")
    func golden() {
        let registry = PrometheusRegistry()
        registry.floatingPointCounter("cpu_seconds_total", help: "Time \"spent\".").increment(by: 1.5)
        registry.gauge("memory_bytes", help: "Memory.").set(-3)
        registry.counter("plain", help: "Plain.", labels: [("a", "1")]).increment()
        #expect(
            text(registry) == """
                # HELP cloakroom_telemetry_dropped Dropped telemetry, by signal.
                # TYPE cloakroom_telemetry_dropped counter
                cloakroom_telemetry_dropped_total{signal="metrics"} 0
                # HELP cpu_seconds Time \\"spent\\".
                # TYPE cpu_seconds counter
                # UNIT cpu_seconds seconds
                cpu_seconds_total 1.5
                # HELP memory_bytes Memory.
                # TYPE memory_bytes gauge
                # UNIT memory_bytes bytes
                memory_bytes -3
                # HELP plain Plain.
                # TYPE plain counter
                plain_total{a="1"} 1
                # EOF

                """)
    }

    @Test("The registry uses configured bounds, up to 31 of them")
    func configuredBounds() {
        let registry = PrometheusRegistry(buckets: [0.00005, 0.3, 60])
        registry.histogram("took_seconds", help: "Time.").record(nanoseconds: 300_000_000)
        let lines = String(decoding: registry.exposition(), as: UTF8.self).split(separator: "\n").map(String.init)
        #expect(
            lines.filter { $0.hasPrefix("took_seconds_bucket") } == [
                #"took_seconds_bucket{le="5e-05"} 0"#, #"took_seconds_bucket{le="0.3"} 1"#,
                #"took_seconds_bucket{le="60"} 1"#, #"took_seconds_bucket{le="+Inf"} 1"#,
            ])
        let most = PrometheusRegistry(buckets: (1...31).map(Double.init)).histogram("took_seconds", help: "Time.")
        for seconds: UInt64 in [31, 32] { most.record(nanoseconds: seconds * 1_000_000_000) }
        #expect(most.snapshot().bounds.last == 31)
        #expect(most.snapshot().cumulative.suffix(3) == [0, 1, 2])
        #expect(most.count == 2)
    }

    @Test("Bounds of buckets are canonical floating-point numbers")
    func bounds() {
        let registry = PrometheusRegistry()
        registry.histogram("took_seconds", help: "Time.").record(nanoseconds: 2_000_000_000)
        _ = registry.histogram("sizes", help: "Sizes.", labels: [("x", "y")], buckets: .magnitudes)
        let exposed = text(registry)
        #expect(exposed.contains("took_seconds_bucket{le=\"0.005\"} 0\n"))
        #expect(exposed.contains("took_seconds_bucket{le=\"1.0\"} 0\n"))
        #expect(exposed.contains("took_seconds_bucket{le=\"10.0\"} 1\n"))
        #expect(exposed.contains("took_seconds_bucket{le=\"+Inf\"} 1\ntook_seconds_sum 2.0\ntook_seconds_count 1\n"))
        #expect(exposed.contains("sizes_bucket{x=\"y\",le=\"100000.0\"} 0\n"))
        #expect(exposed.contains("sizes_bucket{x=\"y\",le=\"1e+06\"} 0\n"))
    }

    @Test("Of families with the same OpenMetrics name only one is exposed")
    func clash() {
        let registry = PrometheusRegistry()
        registry.counter("things_total", help: "T.").increment()
        registry.gauge("things", help: "T.").set(2)
        registry.gauge("things_created", help: "T.").set(3)
        let exposed = text(registry)
        #expect(exposed.contains("things_total 1\n"))
        #expect(!exposed.contains("TYPE things gauge"))
        #expect(!exposed.contains("things_created"))
        #expect(exposed.contains("{signal=\"metrics\"} 2\n"))
    }
}
