import CloakroomCore
import CloakroomTelemetry
import Logging

/// Reloads changed certificates without closing connections.
enum CertificateReloader {
    /// Poll interval. A poll takes a few system calls, and a delay of 10 s does not matter for certificate renewal.
    static let interval = Duration.seconds(10)

    /// Polls the files of the listeners, each named by its configured address, until cancelled. Results are logged and
    /// counted.
    /// - Parameter onOtherDemands: Called if the requirements on clients have changed.
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
        // `sleep` throws only on cancellation.
        while (try? await Task.sleep(for: interval)) != nil {
            for index in watches.indices {
                let outcome = watches[index].watch.poll()
                // Also shows certificates activated by a configuration reload.
                watches[index].metrics.show(watches[index].watch.listener.certificates)
                let (name, watch, metrics) = watches[index]
                switch outcome {
                case .unchanged, .unchangedFailure: break
                case .reloaded(let asksForOther):
                    if asksForOther { await onOtherDemands() }
                    metrics.reloads.increment()
                    logger.notice(
                        "certificates reloaded",
                        metadata: [
                            "event": "tls_reload", "outcome": "success", "listener": "\(name)",
                            "certificates": .array(watch.listener.certificates.map { .string(describe($0)) }),
                        ])
                case .failed(let reason):
                    metrics.failures.increment()
                    logger.error(
                        "certificate reload failed, previous certificates kept",
                        metadata: [
                            "event": "tls_reload", "outcome": "failure", "listener": "\(name)", "reason": "\(reason)",
                        ])
                }
            }
        }
    }

    private static func describe(_ certificate: ServerCertificate) -> String {
        "\(certificate.file) until \(WallTime(seconds: certificate.notAfter).iso8601)"
    }
}

/// Monitors the files of one listener: changed files are reloaded. A failed reload is tried again at each poll until it
/// succeeds.
struct CertificateMonitor {
    /// Result of a poll.
    enum Outcome: Equatable {
        /// The files in use are unchanged.
        case unchanged
        /// New connections use the new content; the requirements on clients may have changed.
        case reloaded(asksForOther: Bool)
        /// The files are invalid, for the given reason; the previous material is kept.
        case failed(String)
        /// The same failure as at the previous poll.
        case unchangedFailure
    }

    let listener: TLSListener
    private var lastFailure: String?

    init(_ listener: TLSListener) {
        self.listener = listener
    }

    /// Reloads the files if one of them has changed. Key and certificate of different pairs, as they occur while the
    /// files are being replaced, are never activated.
    mutating func poll() -> Outcome {
        guard listener.isOutdated else {
            // Also reset if the old files were restored.
            lastFailure = nil
            return .unchanged
        }
        do {
            let asksForOther = try listener.reload()
            lastFailure = nil
            return .reloaded(asksForOther: asksForOther)
        } catch {
            let reason = (error as? ListenerError)?.description ?? "\(error)"
            defer { lastFailure = reason }
            return reason == lastFailure ? .unchangedFailure : .failed(reason)
        }
    }
}
