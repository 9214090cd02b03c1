import CloakroomCore

/// What users do about their own sessions.
///
/// Nothing here slides the idle timeout of the session that asks. Sessions that end here are dead at once, on every
/// replica. Their tokens are revoked upstream in the background where the store can open them: the memory store can; one
/// that keeps sessions sealed cannot without their tickets, and the audit line says so. The session that asks is another
/// matter: its ticket is at hand.
extension AccountEndpoints {
    /// 200 with the sessions of whoever asks.
    func listSessions(_ request: OwnRequest) async -> OwnResponse {
        await withSession(of: request) { session throws(SessionStoreError) in
            let all = try await store.sessions(of: session.user.account, now: request.now)
            return OwnResponse(status: 200, content: .json(SessionListDocument.make(all, current: session.id)))
        }
    }

    /// 200 with `{"ended": n}`: a page that says how many there were needs no second request.
    func endOtherSessions(_ request: OwnRequest) async -> OwnResponse {
        await withSession(of: request) { session throws(SessionStoreError) in
            let ended = try await store.takeAll(
                of: session.user.account, but: session.id, reason: .revoked, now: request.now)
            noteEnd(of: ended, by: session, request)
            return OwnResponse(status: 200, content: .json(Array(#"{"ended":\#(ended.count)}"#.utf8)))
        }
    }

    /// 204; 404 for whatever is no session of whoever asks: whether it is somebody else's is not told. Ending the session
    /// that asks is signing out.
    func endSession(_ request: OwnRequest) async -> OwnResponse {
        await withSession(of: request) { session throws(SessionStoreError) in
            guard let id = request.name.flatMap({ SessionID($0) }) else { return problem(.notFound) }
            guard id != session.id else { return await signOut(request) }
            let account = session.user.account
            guard let ended = try await store.take(id, of: account, reason: .revoked, now: request.now) else {
                return problem(.notFound)
            }
            noteEnd(of: [ended], by: session, request)
            return OwnResponse(status: 204)
        }
    }

    private func noteEnd(of ended: [EndedSession], by session: Session, _ request: OwnRequest) {
        guard !ended.isEmpty else { return }
        let tokens = revocations.revoke(ended)
        observer.accountEvent(
            .signOutOthers(ended.map(\.id), by: session.id, tokens: tokens), from: request.origin)
    }
}
