import CloakroomCore

/// What users do about their own sessions.
///
/// Nothing here slides the idle timeout of the session that asks. Sessions that end here are dead at once, on every
/// replica; their tokens are not made void upstream, for a store that leaves the process cannot open a session without
/// its ticket. Nobody can use them any more, and they end by themselves. The session that asks is another matter: its
/// ticket is at hand.
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
            let ended = try await store.endAll(
                of: session.user.account, but: session.id, reason: .revoked, now: request.now)
            if !ended.isEmpty { observer.accountEvent(.signOutOthers(ended, by: session.id), from: request.origin) }
            return OwnResponse(status: 200, content: .json(Array(#"{"ended":\#(ended.count)}"#.utf8)))
        }
    }

    /// 204; 404 for whatever is no session of whoever asks: whether it is somebody else's is not told. Ending the session
    /// that asks is signing out.
    func endSession(_ request: OwnRequest) async -> OwnResponse {
        await withSession(of: request) { session throws(SessionStoreError) in
            guard let id = request.name.flatMap({ SessionID($0) }) else { return problem(.notFound) }
            guard id != session.id else { return await signOut(request) }
            guard try await store.end(id, of: session.user.account, reason: .revoked, now: request.now) else {
                return problem(.notFound)
            }
            observer.accountEvent(.signOutOthers([id], by: session.id), from: request.origin)
            return OwnResponse(status: 204)
        }
    }
}
