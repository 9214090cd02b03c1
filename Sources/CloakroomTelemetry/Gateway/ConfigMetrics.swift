import CloakroomCore

/// The metrics of configuration reloads: `cloakroom_config_…`.
struct ConfigMetrics: Sendable {
    private let successes: CounterHandle
    private let failures: CounterHandle
    private let lastSuccessful: GaugeHandle
    private let lastSuccess: FloatingPointGaugeHandle

    init(registry: PrometheusRegistry) {
        func reloads(_ outcome: String) -> CounterHandle {
            registry.counter(
                "cloakroom_config_reloads_total", help: "Configuration reloads, by outcome.",
                labels: [("outcome", outcome)])
        }
        successes = reloads("success")
        failures = reloads("failure")
        lastSuccessful = registry.gauge(
            "cloakroom_config_last_reload_successful",
            help: "Whether the last configuration reload succeeded; 1 before the first reload.")
        lastSuccess = registry.floatingPointGauge(
            "cloakroom_config_last_reload_success_timestamp_seconds",
            help: "Time at which the effective configuration was loaded, in seconds since 1970.")
        lastSuccessful.set(1)
    }

    func started(now: Timestamp) {
        lastSuccess.set(Self.seconds(now))
    }

    func reloaded(isSuccess: Bool, now: Timestamp) {
        if isSuccess {
            successes.increment()
            lastSuccess.set(Self.seconds(now))
        } else {
            failures.increment()
        }
        lastSuccessful.set(isSuccess ? 1 : 0)
    }

    private static func seconds(_ time: Timestamp) -> Double {
        Double(time.milliseconds) / 1_000
    }
}
