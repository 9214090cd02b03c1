import Synchronization

/// The time right after an outage of the store, in which replicas keep what they could not keep during it.
final class PostOutageGracePeriod: Sendable {
    /// As long as a replica may take to find its way back (5 s at most between two attempts to connect) and to look again
    /// (1.6 s between two attempts to keep new tokens).
    static let length = Duration.seconds(7)

    private let state = Mutex<(wasUp: Bool, endsAt: ContinuousClock.Instant?)>((false, nil))

    /// The link to the store stands, or does not.
    func connectionChanged(isUp: Bool) {
        state.withLock { state in
            // The first time there was no outage before it that this process has seen.
            if isUp, state.wasUp { state.endsAt = .now + Self.length }
            if isUp { state.wasUp = true }
        }
    }

    /// Whether there is no outage that has just ended.
    var isOver: Bool {
        state.withLock { state in state.endsAt.map { .now >= $0 } ?? true }
    }
}
