import CloakroomTelemetry

/// What metrics say about a listener's certificates.
struct CertificateMetrics: Sendable {
    private let registry: PrometheusRegistry
    private let listener: String
    private let reloads: CounterHandle
    private let failures: CounterHandle

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

    /// `cloakroom_tls_certificate_not_after_timestamp_seconds`: a series for each certificate, by its file.
    func show(_ certificates: [ServedCertificate]) {
        for certificate in certificates {
            registry.gauge(
                "cloakroom_tls_certificate_not_after_timestamp_seconds",
                help: "When the certificate expires, in seconds since 1970.",
                labels: [("listener", listener), ("file", certificate.file)]
            ).set(certificate.notAfter)
        }
    }

    func recordReload() {
        reloads.increment()
    }

    func recordFailure() {
        failures.increment()
    }
}
