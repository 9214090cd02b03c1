import Synchronization

/// The grace period after an outage of the store, in which replicas save the data that they could not save during it.
final class PostOutageGracePeriod: Sendable {
    /// The time that a replica may need to reconnect (5 s at most between two attempts) and to retry (1.6 s between two
    /// attempts to save new tokens).
    static let length = Duration.seconds(7)

    private let state = Mutex<(wasUp: Bool, endsAt: ContinuousClock.Instant?)>((false, nil))

    /// The connection to the store was established or lost.
    func connectionChanged(isUp: Bool) {
        state.withLock { state in
            // The first connection does not follow an outage that this process has seen.
            if isUp, state.wasUp { state.endsAt = .now + Self.length }
            if isUp { state.wasUp = true }
        }
    }

    /// Whether no grace period is active.
    var isOver: Bool {
        state.withLock { state in state.endsAt.map { .now >= $0 } ?? true }
    }
}
