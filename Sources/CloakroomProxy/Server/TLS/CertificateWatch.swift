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
