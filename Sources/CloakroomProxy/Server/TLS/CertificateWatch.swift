/// Looks after the files of one listener: what changed is read again, and what cannot be used is tried again at each
/// look until it can.
struct CertificateMonitor {
    /// What a look has led to.
    enum Outcome: Equatable {
        /// The files are those that are in use.
        case unchanged
        /// New connections get what the files hold now, and perhaps have to show something else than before.
        case reloaded(asksForOther: Bool)
        /// The files cannot be used, for the reason given; what was in use stays.
        case failed(String)
        /// As said before.
        case unchangedFailure
    }

    let listener: TLSListener
    private var lastFailure: String?

    init(_ listener: TLSListener) {
        self.listener = listener
    }

    /// Reads the files again if one of them is another than before. Key and certificate of different pairs, as they are
    /// met while somebody writes the files, are never put to use.
    mutating func poll() -> Outcome {
        guard listener.isOutdated else {
            // Also if the old files were put back.
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
