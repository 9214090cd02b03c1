import CloakroomIdentity
import Synchronization

/// Collects the attempts of identity calls, the latest 32.
final class ObservedCalls: Sendable {
    private let calls = Mutex<[IdentityCallObservation]>([])

    var all: [IdentityCallObservation] { calls.withLock { $0 } }

    func append(_ call: IdentityCallObservation) {
        calls.withLock { calls in
            if calls.count == 32 { calls.removeFirst() }
            calls.append(call)
        }
    }
}
