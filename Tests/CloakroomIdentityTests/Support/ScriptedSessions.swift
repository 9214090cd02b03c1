import CloakroomCore
import Synchronization

/// What store, client and observer were asked and told, in order.
final class Journal: Sendable {
    private let lines = Mutex<[String]>([])

    func note(_ line: String) { lines.withLock { $0.append(line) } }
    var all: [String] { lines.withLock { $0 } }
}

/// A token client that answers what it is told to.
final class ScriptedClient: TokenClient {
    private struct State {
        var signIn: Result<SignedIn, TokenClientError>
        var revokeError: TokenClientError?
        var renew: Result<SessionTokens, TokenClientError> = .failure(TokenClientError(.unreachable, in: .renew))
        var user: Result<[UInt8]?, TokenClientError> = .success(nil)
        var traceparents: [String?] = []
    }

    private let state: Mutex<State>
    private let journal: Journal

    init(_ journal: Journal, signIn: Result<SignedIn, TokenClientError>) {
        self.journal = journal
        state = Mutex(State(signIn: signIn))
    }

    var traceparents: [String?] { state.withLock { $0.traceparents } }

    func answer(_ result: Result<SignedIn, TokenClientError>) { state.withLock { $0.signIn = result } }
    func answerRenewal(_ result: Result<SessionTokens, TokenClientError>) { state.withLock { $0.renew = result } }
    func answerUser(_ result: Result<[UInt8]?, TokenClientError>) { state.withLock { $0.user = result } }
    func failRevoke(_ kind: TokenClientError.Kind) {
        state.withLock { $0.revokeError = TokenClientError(kind, in: .revoke) }
    }

    func signIn(
        _ credentials: Credentials, traceparent: String?, now: Timestamp
    ) async throws(TokenClientError) -> SignedIn {
        journal.note("signIn \(credentials.email)")
        let result = state.withLock { state in
            state.traceparents.append(traceparent)
            return state.signIn
        }
        return try result.get()
    }

    func renew(
        _ tokens: SessionTokens, traceparent: String?, now: Timestamp
    ) async throws(TokenClientError) -> SessionTokens {
        journal.note("renew \(String(decoding: tokens.refreshToken?.bytes ?? [], as: UTF8.self))")
        let result = state.withLock { state in
            state.traceparents.append(traceparent)
            return state.renew
        }
        return try result.get()
    }

    func user(
        _ tokens: SessionTokens, replacing previous: SessionTokens?, traceparent: String?
    ) async throws(TokenClientError) -> [UInt8]? {
        journal.note("user")
        let result = state.withLock { state in
            state.traceparents.append(traceparent)
            return state.user
        }
        return try result.get()
    }

    func revoke(_ tokens: SessionTokens, traceparent: String?) async throws(TokenClientError) {
        journal.note("revoke \(String(decoding: tokens.refreshToken?.bytes ?? [], as: UTF8.self))")
        let error = state.withLock { state in
            state.traceparents.append(traceparent)
            return state.revokeError
        }
        if let error { throw error }
    }
}

/// Writes down what it is told, without the durations.
final class RecordingObserver: AccountObserver {
    private let events = Mutex<[AccountEvent]>([])

    var all: [AccountEvent] {
        events.withLock { events in
            events.map { event in
                guard case .signIn(let outcome, let hash, _) = event else { return event }
                return .signIn(outcome: outcome, accountHash: hash, duration: .zero)
            }
        }
    }

    func accountEvent(_ event: AccountEvent, from origin: RequestOrigin) { events.withLock { $0.append(event) } }
}
