import CloakroomCore

extension SealedSessionStore {
    func lease(
        _ key: SessionKey, for duration: Duration, now: Timestamp
    ) async throws(SessionStoreError) -> LeaseResult {
        try await records.lease(key.id, for: duration, now: now)
    }

    func save(
        _ refresh: SessionUpdate, ticket: SessionTicket, over session: Session, under lease: RefreshLease,
        now: Timestamp
    ) async throws(SessionStoreError) -> SaveResult {
        // The cached session is invalidated whatever the result, also if the result is unknown.
        defer { table.recordChanged(session.id) }
        let refreshed = session.refreshed(with: refresh, expiresAt: timeouts.end(of: session, refreshedWith: refresh))
        let record = try sealing.seal(refreshed, ticket: ticket)
        return switch try await records.replace(record, fence: lease.fencingToken, now: now) {
        case .done: .saved(refreshed)
        case .changed: .versionConflict
        case .fenced: .staleLease
        case .notFound: .notFound
        }
    }

    func reject(
        _ session: Session, under lease: RefreshLease, now: Timestamp
    ) async throws(SessionStoreError) -> RejectResult {
        defer { table.recordChanged(session.id) }
        let removal = try await records.remove(
            session.id, reason: .refreshRejected, condition: (session.version, lease.fencingToken), now: now)
        switch removal {
        case .removed:
            events.onEnded(.refreshRejected)
            return .ended
        case .changed: return .versionConflict
        case .notFound: return .notFound
        }
    }

    func release(_ lease: RefreshLease, of key: SessionKey) async {
        // A lease that cannot be released expires.
        try? await records.release(key.id, fence: lease.fencingToken)
    }
}
