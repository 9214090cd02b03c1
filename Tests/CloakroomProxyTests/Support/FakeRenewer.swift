import CloakroomCore
import Synchronization

/// Renews nothing by itself: a test says what comes of it.
final class FakeRefresher: TokenRefreshing {
    /// What was asked for.
    struct Call: Sendable, Equatable {
        var session: SessionID
        var cause: RefreshTrigger
    }

    private let outcome: @Sendable (Session, RefreshTrigger) async -> RefreshOutcome
    /// Whether renewing has been tried just now.
    let isUseless = Atomic(false)
    private let state = Mutex<(calls: [Call], soon: [SessionID])>(([], []))

    init(
        _ outcome: @escaping @Sendable (Session, RefreshTrigger) async -> RefreshOutcome = { session, _ in
            .active(session)
        }
    ) {
        self.outcome = outcome
    }

    /// What requests waited for.
    var calls: [Call] { state.withLock { $0.calls } }
    /// What was asked for while requests went on.
    var soon: [SessionID] { state.withLock { $0.soon } }

    func refresh(
        _ session: Session, ticket: SessionTicket, cause: RefreshTrigger, traceparent: String?
    ) async -> RefreshOutcome {
        state.withLock { $0.calls.append(Call(session: session.id, cause: cause)) }
        return await outcome(session, cause)
    }

    func shouldRefreshAfterRejection(_ session: Session) -> Bool { !isUseless.load(ordering: .relaxed) }

    func refreshInBackground(_ session: Session, ticket: SessionTicket) {
        state.withLock { $0.soon.append(session.id) }
    }
}
