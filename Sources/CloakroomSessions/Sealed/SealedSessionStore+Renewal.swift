import CloakroomCore

extension SealedSessionStore {
    func lease(
        _ key: SessionKey, for duration: Duration, now: Timestamp
    ) async throws(SessionStoreError) -> LeaseAttempt {
        try await records.lease(key.id, for: duration, now: now)
    }

    func save(
        _ renewal: SessionRenewal, ticket: SessionTicket, over session: Session, under lease: RenewalLease,
        now: Timestamp
    ) async throws(SessionStoreError) -> SaveAttempt {
        // Whatever comes of it, and also when that is not known, what is at hand is not to be relied on.
        defer { table.changed(session.id) }
        let renewed = session.renewed(with: renewal, expiresAt: timeouts.end(of: session, renewedWith: renewal))
        let record = try sealing.seal(renewed, ticket: ticket)
        return switch try await records.replace(record, fence: lease.fence, now: now) {
        case .done: .saved(renewed)
        case .changed: .changed
        case .fenced: .fenced
        case .gone: .gone
        }
    }

    func reject(
        _ session: Session, under lease: RenewalLease, now: Timestamp
    ) async throws(SessionStoreError) -> RejectAttempt {
        defer { table.changed(session.id) }
        let removal = try await records.remove(
            session.id, reason: .refreshRejected, condition: (session.version, lease.fence), now: now)
        switch removal {
        case .removed:
            events.onEnded(.refreshRejected)
            return .ended
        case .changed: return .changed
        case .gone: return .gone
        }
    }

    func release(_ lease: RenewalLease, of key: SessionKey) async {
        // A lease that cannot be given back runs out.
        try? await records.release(key.id, fence: lease.fence)
    }
}
