import CloakroomCore

/// Lists and ends the sessions of the signed-in user.
///
/// These requests do not extend the idle timeout of the requesting session. Ended sessions are invalid immediately on
/// every replica. Their tokens are revoked upstream in the background if the store can open the sessions. The memory
/// store can; a store with sealed sessions needs the ticket, and the audit line records that the tokens were not
/// revoked. For the requesting session the ticket is available.
extension AccountController {
    /// Responds with 200 and the sessions of the requesting user.
    func listSessions(_ request: AccountRequest) async -> AccountResponse {
        await withSession(of: request) { session throws(SessionStoreError) in
            let all = try await ownSessions(of: session, now: request.now)
            return AccountResponse(status: 200, content: .json(SessionListDocument.make(all, current: session.id)))
        }
    }

    /// Responds with 200 and `{"ended": n}`, which saves the page a second request for the number.
    func endOtherSessions(_ request: AccountRequest) async -> AccountResponse {
        await withSession(of: request) { session throws(SessionStoreError) in
            var ended: [EndedSession] = []
            do throws(SessionStoreError) {
                ended = try await store.takeAll(
                    .account(session.user.account, but: session.id), reason: .revoked, now: request.now)
                if let name = typedAccount(of: session) {
                    // One by one: `takeAll` would also end sessions of another user id with the same typed name.
                    for other in try await store.sessions(of: name, now: request.now) {
                        let one = try await store.take(other.id, of: name, reason: .revoked, now: request.now)
                        if let one { ended.append(one) }
                    }
                }
            } catch {
                // The sessions ended so far are logged and their tokens revoked; the request can be repeated.
                noteEnd(of: ended + error.ended, by: session, request)
                throw error
            }
            noteEnd(of: ended, by: session, request)
            return AccountResponse(status: 200, content: .json(Array(#"{"ended":\#(ended.count)}"#.utf8)))
        }
    }

    /// Responds with 204, or with 404 for anything that is not a session of the requesting user. The response does not
    /// reveal whether it is a session of another user. Ending the requesting session signs the user out.
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

    /// The account of the same user's sessions that were created without a user id, because the `user` call
    /// returned none. `nil` if it is the session's own account.
    private func typedAccount(of session: Session) -> AccountName? {
        session.user.name == session.user.account ? nil : session.user.name
    }

    /// All sessions of the user of the given session, the most recent first.
    func ownSessions(of session: Session, now: SessionTime) async throws(SessionStoreError) -> [SessionSummary] {
        let all = try await store.sessions(of: session.user.account, now: now)
        guard let name = typedAccount(of: session) else { return all }
        return (all + (try await store.sessions(of: name, now: now))).sorted { $0.createdAt > $1.createdAt }
    }

    /// Ends one of the sessions that ``ownSessions(of:now:)`` lists.
    func takeOwn(
        _ id: SessionID, of session: Session, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> EndedSession? {
        let ended = try await store.take(id, of: session.user.account, reason: reason, now: now)
        guard ended == nil, let name = typedAccount(of: session) else { return ended }
        return try await store.take(id, of: name, reason: reason, now: now)
    }

    private func noteEnd(of ended: [EndedSession], by session: Session, _ request: AccountRequest) {
        guard !ended.isEmpty else { return }
        let tokens = revocations.revoke(ended)
        observer.accountEvent(
            .signOutOthers(ended.map(\.id), by: session.id, tokens: tokens), from: request.origin.about(session))
    }
}
