import CloakroomCore
import Synchronization

/// Reports a scripted number of ended sessions, and records its calls.
final class ScriptedRevoking: SessionRevoking {
    struct Call: Sendable, Equatable {
        var account: AccountName?
        var session: SessionID?
        var peer: String
        var now: SessionTime
    }

    private struct State {
        var result: Result<Int, SessionStoreError>
        var calls: [Call] = []
        var userIDs: [String] = []
    }

    private let state: Mutex<State>

    init(_ result: Result<Int, SessionStoreError>) { state = Mutex(State(result: result)) }

    var calls: [Call] { state.withLock { $0.calls } }
    /// The requested user ids; no sessions exist for them.
    var userIDs: [String] { state.withLock { $0.userIDs } }

    func revoke(
        user account: AccountName, from origin: AuditContext, now: SessionTime
    ) async throws(SessionStoreError) -> Int {
        try note(Call(account: account, peer: origin.peer, now: now)).get()
    }

    func revoke(
        userID id: String, from origin: AuditContext, now: SessionTime
    ) async throws(SessionStoreError) -> Int {
        let result = state.withLock { state in
            state.userIDs.append(id)
            return state.result
        }
        _ = try result.get()
        return 0
    }

    func revoke(session id: SessionID, from origin: AuditContext, now: SessionTime) async throws(SessionStoreError)
        -> Int
    {
        try note(Call(session: id, peer: origin.peer, now: now)).get()
    }

    private func note(_ call: Call) -> Result<Int, SessionStoreError> {
        state.withLock { state in
            state.calls.append(call)
            return state.result
        }
    }
}
