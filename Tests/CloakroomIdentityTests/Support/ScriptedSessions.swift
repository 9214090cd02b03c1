import CloakroomCore
import Synchronization

/// Records the calls to store, client and observer, in order.
final class CallRecorder: Sendable {
    private let lines = Mutex<[String]>([])

    func note(_ line: String) { lines.withLock { $0.append(line) } }
    var all: [String] { lines.withLock { $0 } }
}

/// What a client does whose test makes no such call.
extension TokenClient {
    var supportsRefresh: Bool { true }

    func signIn(
        _ credentials: Credentials, traceparent: String?, now: WallTime
    ) async throws(TokenClientError) -> SignInResult {
        throw TokenClientError(.unreachable, in: .signIn)
    }

    func refresh(
        _ session: Session, traceparent: String?, now: WallTime
    ) async throws(TokenClientError) -> SessionUpdate {
        throw TokenClientError(.unreachable, in: .refresh)
    }

    func updatedUser(
        of session: Session, replacing previous: TokenSet, traceparent: String?
    ) async throws(TokenClientError) -> SessionUpdate? { nil }
}

/// A token client with a scripted response to sign-ins.
final class ScriptedClient: TokenClient {
    private struct State {
        var signIn: Result<SignInResult, TokenClientError>
        var revokeError: TokenClientError?
        var traceparents: [String?] = []
        var hold: @Sendable () async -> Void = {}
    }

    private let state: Mutex<State>
    private let journal: CallRecorder

    init(_ journal: CallRecorder, signIn: Result<SignInResult, TokenClientError>) {
        self.journal = journal
        state = Mutex(State(signIn: signIn))
    }

    var traceparents: [String?] { state.withLock { $0.traceparents } }

    func response(_ result: Result<SignInResult, TokenClientError>) { state.withLock { $0.signIn = result } }
    /// Each sign-in waits for this before it has a result.
    func holdSignIns(_ hold: @escaping @Sendable () async -> Void) { state.withLock { $0.hold = hold } }
    func failRevoke(_ kind: TokenClientError.Kind) {
        state.withLock { $0.revokeError = TokenClientError(kind, in: .revoke) }
    }

    func signIn(
        _ credentials: Credentials, traceparent: String?, now: WallTime
    ) async throws(TokenClientError) -> SignInResult {
        journal.note("signIn \(credentials.name)")
        await state.withLock(\.hold)()
        let result = state.withLock { state in
            state.traceparents.append(traceparent)
            return state.signIn
        }
        return try result.get()
    }

    func revoke(_ tokens: TokenSet, traceparent: String?) async throws(TokenClientError) {
        journal.note("revoke \(String(decoding: tokens.refreshToken?.bytes ?? [], as: UTF8.self))")
        let error = state.withLock { state in
            state.traceparents.append(traceparent)
            return state.revokeError
        }
        if let error { throw error }
    }
}

/// Records the events it receives, without the durations.
final class RecordingObserver: AccountObserver {
    private let events = Mutex<[(event: AccountEvent, origin: AuditContext)]>([])

    var origins: [AuditContext] { events.withLock { $0.map(\.origin) } }

    var all: [AccountEvent] {
        events.withLock { events in
            events.map(\.event).map { event in
                switch event {
                case .signIn(let outcome, let hash, _):
                    .signIn(outcome: outcome, accountHash: hash, duration: .zero)
                case .login(let outcome, let identity, let reason, let hash, _):
                    .login(outcome, identity: identity, reason: reason, accountHash: hash, duration: .zero)
                default: event
                }
            }
        }
    }

    func accountEvent(_ event: AccountEvent, from origin: AuditContext) {
        events.withLock { $0.append((event, origin)) }
    }
}
