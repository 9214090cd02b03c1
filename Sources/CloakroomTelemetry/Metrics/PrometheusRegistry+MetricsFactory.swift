public import Metrics

/// The swift-metrics factory for libraries. Names are converted to Prometheus' rules: counters end in `_total`, timers
/// are histograms in seconds, meters and non-aggregating recorders are gauges, aggregating recorders are histograms
/// over powers of ten.
extension PrometheusRegistry: MetricsFactory {
    /// A counter, `_total`.
    public func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        counter(MetricName.metric(label, suffix: "_total"), help: Self.libraryHelp(label), labels: dimensions)
    }

    /// A floating-point counter, `_total`.
    public func makeFloatingPointCounter(
        label: String, dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        floatingPointCounter(
            MetricName.metric(label, suffix: "_total"), help: Self.libraryHelp(label), labels: dimensions)
    }

    /// A gauge.
    public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        floatingPointGauge(label, help: Self.libraryHelp(label), labels: dimensions)
    }

    /// A histogram if the recorder aggregates, otherwise a gauge with the last value.
    public func makeRecorder(
        label: String, dimensions: [(String, String)], aggregate: Bool
    ) -> any RecorderHandler {
        let help = Self.libraryHelp(label)
        return aggregate
            ? histogram(label, help: help, labels: dimensions, buckets: .magnitudes)
            : floatingPointGauge(label, help: help, labels: dimensions)
    }

    /// A histogram in seconds, `_seconds`.
    public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        histogram(MetricName.metric(label, suffix: "_seconds"), help: Self.libraryHelp(label), labels: dimensions)
    }

    /// Removes the series from the exposition.
    public func destroyCounter(_ handler: any CounterHandler) { remove(handler) }

    /// Removes the series from the exposition.
    public func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { remove(handler) }

    /// Removes the series from the exposition.
    public func destroyMeter(_ handler: any MeterHandler) { remove(handler) }

    /// Removes the series from the exposition.
    public func destroyRecorder(_ handler: any RecorderHandler) { remove(handler) }

    /// Removes the series from the exposition.
    public func destroyTimer(_ handler: any TimerHandler) { remove(handler) }

    private static func libraryHelp(_ label: String) -> String {
        "Recorded by a library as \(label)."
    }
}
