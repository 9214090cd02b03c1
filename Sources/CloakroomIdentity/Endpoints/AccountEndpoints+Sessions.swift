import CloakroomCore

/// What users do about their own sessions.
///
/// Nothing here slides the idle timeout of the session that asks. Sessions that end here are dead at once, on every
/// replica. Their tokens are revoked upstream in the background where the store can open them: the memory store can; one
/// that keeps sessions sealed cannot without their tickets, and the audit line says so. The session that asks is another
/// matter: its ticket is at hand.
extension AccountController {
    /// 200 with the sessions of whoever asks.
    func listSessions(_ request: AccountRequest) async -> AccountResponse {
        await withSession(of: request) { session throws(SessionStoreError) in
            let all = try await ownSessions(of: session, now: request.now)
            return AccountResponse(status: 200, content: .json(SessionListDocument.make(all, current: session.id)))
        }
    }

    /// 200 with `{"ended": n}`: a page that says how many there were needs no second request.
    func endOtherSessions(_ request: AccountRequest) async -> AccountResponse {
        await withSession(of: request) { session throws(SessionStoreError) in
            var ended = try await store.takeAll(
                of: session.user.account, but: session.id, reason: .revoked, now: request.now)
            if let name = typedAccount(of: session) {
                // One by one: `takeAll` would also end sessions of another user id with the same typed name.
                do throws(SessionStoreError) {
                    for other in try await store.sessions(of: name, now: request.now) {
                        let one = try await store.take(other.id, of: name, reason: .revoked, now: request.now)
                        if let one { ended.append(one) }
                    }
                } catch {
                    // What has ended until here is logged and its tokens are revoked; the request can be sent again.
                    noteEnd(of: ended, by: session, request)
                    throw error
                }
            }
            noteEnd(of: ended, by: session, request)
            return AccountResponse(status: 200, content: .json(Array(#"{"ended":\#(ended.count)}"#.utf8)))
        }
    }

    /// 204; 404 for whatever is no session of whoever asks: whether it is somebody else's is not told. Ending the session
    /// that asks is signing out.
    func endSession(_ request: AccountRequest) async -> AccountResponse {
        await withSession(of: request) { session throws(SessionStoreError) in
            guard let id = request.name.flatMap({ SessionID($0) }) else { return problem(.notFound) }
            guard id != session.id else { return await signOut(request) }
            guard let ended = try await takeOwn(id, of: session, reason: .revoked, now: request.now) else {
                return problem(.notFound)
            }
            noteEnd(of: [ended], by: session, request)
            return AccountResponse(status: 204)
        }
    }

    /// The account that the same user's sessions have which were made without a user id: by an earlier release, or while
    /// the `user` call returned none. `nil` where it is the session's own account.
    private func typedAccount(of session: Session) -> AccountName? {
        session.user.name == session.user.account ? nil : session.user.name
    }

    /// All sessions of the user that a session belongs to, the latest first.
    func ownSessions(of session: Session, now: Timestamp) async throws(SessionStoreError) -> [SessionSummary] {
        let all = try await store.sessions(of: session.user.account, now: now)
        guard let name = typedAccount(of: session) else { return all }
        return (all + (try await store.sessions(of: name, now: now))).sorted { $0.createdAt > $1.createdAt }
    }

    /// Ends one of the sessions that ``ownSessions(of:now:)`` lists.
    func takeOwn(
        _ id: SessionID, of session: Session, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> EndedSession? {
        let ended = try await store.take(id, of: session.user.account, reason: reason, now: now)
        guard ended == nil, let name = typedAccount(of: session) else { return ended }
        return try await store.take(id, of: name, reason: reason, now: now)
    }

    private func noteEnd(of ended: [EndedSession], by session: Session, _ request: AccountRequest) {
        guard !ended.isEmpty else { return }
        let tokens = revocations.revoke(ended)
        observer.accountEvent(
            .signOutOthers(ended.map(\.id), by: session.id, tokens: tokens), from: request.origin)
    }
}
