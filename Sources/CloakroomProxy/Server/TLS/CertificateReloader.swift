import CloakroomTelemetry
import FoundationEssentials
import Logging

/// Puts renewed certificates to use while connections go on.
enum CertificateReloader {
    /// How often files are looked at. Nobody renews so late that it matters, and a look is a few system calls.
    static let interval = Duration.seconds(10)

    /// Looks at the files of the listeners, each under its address as configured, until it is cancelled. What comes of
    /// it is logged and counted.
    /// - Parameter onOtherDemands: Is called where clients have to show something else than before.
    static func watch(
        _ listeners: [(name: String, tls: TLSListener)], every interval: Duration = interval,
        registry: PrometheusRegistry, logger: Logger, onOtherDemands: () async -> Void = {}
    ) async {
        var watches = listeners.map { name, tls in
            (
                name: name, watch: CertificateMonitor(tls),
                metrics: CertificateMetrics(registry: registry, listener: name)
            )
        }
        for index in watches.indices { watches[index].metrics.show(watches[index].watch.listener.certificates) }
        // The only way for a sleep to fail is to be cancelled.
        while (try? await Task.sleep(for: interval)) != nil {
            for index in watches.indices {
                let outcome = watches[index].watch.poll()
                // Also what a reload of the configuration has put in their place.
                watches[index].metrics.show(watches[index].watch.listener.certificates)
                let (name, watch, metrics) = watches[index]
                switch outcome {
                case .unchanged, .unchangedFailure: break
                case .reloaded(let asksForOther):
                    if asksForOther { await onOtherDemands() }
                    metrics.recordReload()
                    logger.notice(
                        "certificates reloaded",
                        metadata: [
                            "event": "tls_reload", "outcome": "success", "listener": "\(name)",
                            "certificates": .array(watch.listener.certificates.map { .string(describe($0)) }),
                        ])
                case .failed(let reason):
                    metrics.recordFailure()
                    logger.error(
                        "certificates could not be reloaded, the old ones stay in use",
                        metadata: [
                            "event": "tls_reload", "outcome": "failure", "listener": "\(name)", "reason": "\(reason)",
                        ])
                }
            }
        }
    }

    private static func describe(_ certificate: ServerCertificate) -> String {
        let expiry = Date(timeIntervalSince1970: Double(certificate.notAfter)).formatted(.iso8601)
        return "\(certificate.file) until \(expiry)"
    }
}
