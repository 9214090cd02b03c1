import CloakroomCore

/// Creates the session of a successful sign-in, and ends the sessions that it replaces.
extension AccountController {
    /// A new session with its ticket, and the sessions whose tickets were presented, which have ended.
    typealias IssuedSession = (ticket: SessionTicket, session: Session, replaced: [Session])

    /// The contents of a new session of the requesting client.
    func newSession(
        user: UserProfile, tokens: TokenSet, source: SessionSource, provenance: SessionProvenance? = nil,
        endsBy: WallTime? = nil, app: AppConfiguration? = nil, for request: AccountRequest
    ) -> NewSession {
        let userAgent = UserAgentFamily(userAgent: request.userAgent ?? "")
        let client = SessionClientInfo(peer: request.origin.peer, userAgent: userAgent, app: app?.name)
        var new = NewSession(
            user: user, tokens: tokens, client: client, source: source, provenance: provenance, endsBy: endsBy)
        new.site = site
        new.terms = app?.terms(session)
        return new
    }

    /// Creates the new session, then ends those whose tickets were presented. If the store fails half way, no
    /// second session remains and the new tokens are not used.
    /// - Parameter key: Another session to be ended, whose ticket was not presented; `nil` for none. Its tokens are
    ///   revoked in the background.
    func issueSession(
        _ new: NewSession, replacing key: SessionKey? = nil, for request: AccountRequest
    ) async throws(SessionStoreError) -> IssuedSession {
        var made: SessionTicket?
        do {
            let limit = self.session.maxSessionsPerAccount
            let (ticket, session, mayExceed) = try await store.create(new, limit: limit, now: request.now)
            made = ticket
            if mayExceed { await evictOldestSessions(for: session, request) }
            var replaced: [Session] = []
            for presented in request.endingTickets {
                let ended = try await store.end(presented, reason: .replaced, now: request.now)
                if let ended { replaced.append(ended) }
            }
            if let key, !replaced.contains(where: { $0.key == key }) {
                let ended = try await store.take(key.id, of: nil, reason: .replaced, now: request.now)
                if let ended { revokeReplaced(ended, by: session, for: request) }
            }
            return (ticket, session, replaced)
        } catch {
            await withdraw(made, new, for: request)
            throw error
        }
    }

    /// Ends a new session whose ticket is not sent to the client.
    ///
    /// Its tokens are revoked at an upstream. Those of a provider are not: providers end their own session of the
    /// browser with them (Keycloak does), and an earlier session here, which stays, may belong to the same one. The
    /// tokens were sent to no client and expire by themselves.
    /// - Parameter ticket: `nil` if the session was not created.
    func withdraw(_ ticket: SessionTicket?, _ new: NewSession, for request: AccountRequest) async {
        if let ticket { _ = try? await store.end(ticket, reason: .replaced, now: request.now) }
        guard new.provenance == nil else { return }
        try? await clients[new.source]?.revoke(new.tokens, traceparent: request.traceparent)
    }

    /// Revokes the tokens of a session in the background that another one has replaced, unless both belong to one user
    /// at one provider: see ``withdraw(_:_:for:)``.
    ///
    /// Tokens that only a ticket can open expire by themselves.
    func revokeReplaced(_ ended: EndedSession, by session: Session, for request: AccountRequest) {
        guard let old = ended.opened, old.provenance == nil || old.user.account != session.user.account else { return }
        if revocations.revoke([ended]) != .revoking {
            observer.accountEvent(.revokeFailed(ended.id), from: request.origin)
        }
    }

    /// Ends the oldest sessions of an account that has too many, so that one user cannot fill the store. A failure here
    /// does not reject the sign-in; the next sign-in tries again.
    private func evictOldestSessions(for session: Session, _ request: AccountRequest) async {
        let ended: [EndedSession]
        do throws(SessionStoreError) {
            ended = try await store.takeOldest(
                of: session.user, over: self.session.maxSessionsPerAccount, but: session.id, reason: .replaced,
                now: request.now)
        } catch {
            ended = error.ended
        }
        guard !ended.isEmpty else { return }
        let tokens = revocations.revoke(ended)
        observer.accountEvent(.evicted(ended.map(\.id), tokens: tokens), from: request.origin)
    }
}
