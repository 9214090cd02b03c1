import CloakroomTelemetry

/// What metrics say about a listener's certificates.
struct CertificateMetrics: Sendable {
    private let registry: PrometheusRegistry
    private let listener: String
    private let reloads: CounterHandle
    private let failures: CounterHandle
    /// By file.
    private var expiries: [String: GaugeHandle] = [:]

    /// - Parameter listener: Its address as configured.
    init(registry: PrometheusRegistry, listener: String) {
        self.registry = registry
        self.listener = listener
        let counter = { (outcome: String) in
            registry.counter(
                "cloakroom_tls_reloads_total",
                help: "Times that changed certificates were read again, by outcome.",
                labels: [("listener", listener), ("outcome", outcome)])
        }
        reloads = counter("success")
        failures = counter("failure")
    }

    /// `cloakroom_tls_certificate_not_after_timestamp_seconds`: a series for each certificate, by its file. One that is
    /// shown no more has none: nobody need be warned of its end.
    mutating func show(_ certificates: [ServerCertificate]) {
        var old = expiries
        for certificate in certificates {
            old[certificate.file] = nil
            let gauge =
                expiries[certificate.file]
                ?? registry.gauge(
                    "cloakroom_tls_certificate_not_after_timestamp_seconds",
                    help: "When the certificate expires, in seconds since 1970.",
                    labels: [("listener", listener), ("file", certificate.file)])
            gauge.set(certificate.notAfter)
            expiries[certificate.file] = gauge
        }
        for (file, gauge) in old {
            registry.remove(gauge)
            expiries[file] = nil
        }
    }

    func recordReload() {
        reloads.increment()
    }

    func recordFailure() {
        failures.increment()
    }
}
