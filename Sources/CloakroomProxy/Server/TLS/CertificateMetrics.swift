import CloakroomTelemetry

/// Metrics of a listener's certificates.
struct CertificateMetrics: Sendable {
    private let registry: PrometheusRegistry
    private let listener: String
    let reloads: CounterHandle
    let failures: CounterHandle
    /// Gauges by file.
    private var expiries: [String: GaugeHandle] = [:]

    /// - Parameter listener: The configured address.
    init(registry: PrometheusRegistry, listener: String) {
        self.registry = registry
        self.listener = listener
        let counter = { (outcome: String) in
            registry.counter(
                "cloakroom_tls_reloads_total",
                help: "Reloads of changed certificates, by outcome.",
                labels: [("listener", listener), ("outcome", outcome)])
        }
        reloads = counter("success")
        failures = counter("failure")
    }

    /// Updates `cloakroom_tls_certificate_not_after_timestamp_seconds`, one series per certificate file. The series of
    /// a certificate that is no longer used is removed, so that its expiry raises no alert.
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
}
