import CloakroomCore
import Synchronization

/// Records refresh calls and returns the outcome that a test chooses.
final class FakeRefresher: TokenRefreshing {
    /// A refresh that was requested.
    struct Call: Sendable, Equatable {
        var session: SessionID
        var cause: RefreshTrigger
    }

    private let outcome: @Sendable (Session, RefreshTrigger) async -> RefreshOutcome
    /// Whether a refresh was attempted recently.
    let isUseless = Atomic(false)
    private let state = Mutex<(calls: [Call], soon: [SessionID])>(([], []))

    init(
        _ outcome: @escaping @Sendable (Session, RefreshTrigger) async -> RefreshOutcome = { session, _ in
            .active(session)
        }
    ) {
        self.outcome = outcome
    }

    /// The refreshes that requests waited for.
    var calls: [Call] { state.withLock { $0.calls } }
    /// The refreshes requested in the background.
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
