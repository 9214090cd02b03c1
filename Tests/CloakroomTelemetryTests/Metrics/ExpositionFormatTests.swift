import Testing

@testable import CloakroomTelemetry

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
