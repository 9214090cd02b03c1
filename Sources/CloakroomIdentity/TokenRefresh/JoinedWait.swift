import CloakroomCore
import Synchronization

/// The wait of a request for an identity call that another request started. Its time is that of the identity provider,
/// not of the gateway. The request that started the call has its time from the call itself: a task inherits
/// ``IdentityCallTime/current``.
final class JoinedWait: Sendable {
    private let startedAt = Mutex<ContinuousClock.Instant?>(nil)

    /// The request has joined the wait.
    func begin() { startedAt.withLock { $0 = .now } }

    /// Adds the wait to the time of the request, if it has begun.
    func end() {
        guard let startedAt = startedAt.withLock({ $0 }) else { return }
        IdentityCallTime.current?.add(nanoseconds: (ContinuousClock.now - startedAt).wholeNanoseconds)
    }
}
