import CloakroomCore
import Synchronization

/// Renews nothing by itself: a test says what comes of it.
final class FakeRenewer: SessionRenewing {
    /// What was asked for.
    struct Call: Sendable, Equatable {
        var session: SessionID
        var cause: RenewalCause
    }

    private let outcome: @Sendable (Session, RenewalCause) async -> RenewalOutcome
    /// Whether renewing has been tried just now.
    let isUseless = Atomic(false)
    private let state = Mutex<(calls: [Call], soon: [SessionID])>(([], []))

    init(
        _ outcome: @escaping @Sendable (Session, RenewalCause) async -> RenewalOutcome = { session, _ in .live(session)
        }
    ) {
        self.outcome = outcome
    }

    /// What requests waited for.
    var calls: [Call] { state.withLock { $0.calls } }
    /// What was asked for while requests went on.
    var soon: [SessionID] { state.withLock { $0.soon } }

    func renew(
        _ session: Session, ticket: SessionTicket, cause: RenewalCause, traceparent: String?
    ) async -> RenewalOutcome {
        state.withLock { $0.calls.append(Call(session: session.id, cause: cause)) }
        return await outcome(session, cause)
    }

    func mayHelp(_ session: Session) -> Bool { !isUseless.load(ordering: .relaxed) }

    func renewSoon(_ session: Session, ticket: SessionTicket) {
        state.withLock { $0.soon.append(session.id) }
    }
}
