public import CloakroomCore
import Synchronization

extension MemorySessionStore {
    /// Takes the lease; never throws.
    public func lease(
        _ key: SessionKey, for duration: Duration, now: Timestamp
    ) async throws(SessionStoreError) -> LeaseResult {
        shard(of: key.id).contents.withLock { $0.lease(key, for: duration, timeouts: timeouts, now: now) }
    }

    /// Keeps what was renewed; never throws. The end of the session may come nearer by it, and never moves away.
    public func save(
        _ refresh: SessionUpdate, ticket: SessionTicket, over session: Session, under lease: RefreshLease,
        now: Timestamp
    ) async throws(SessionStoreError) -> SaveResult {
        shard(of: session.id).contents.withLock {
            $0.save(refresh, over: session, under: lease, timeouts: timeouts, now: now)
        }
    }

    /// Ends the session; never throws.
    public func reject(
        _ session: Session, under lease: RefreshLease, now: Timestamp
    ) async throws(SessionStoreError) -> RejectResult {
        let key = session.key
        let version = session.version
        let removal = end(key.id, reason: .refreshRejected, now: now) { current, held in
            current.key == key && current.version == version && held?.fence == lease.fencingToken
        }
        return switch removal {
        case .ended: .ended
        case .conditionFailed: .versionConflict
        case .expired, .none: .notFound
        }
    }

    /// Gives the lease back.
    public func release(_ lease: RefreshLease, of key: SessionKey) async {
        shard(of: key.id).contents.withLock { $0.release(lease, of: key) }
    }

    /// The same as a look that does not slide: there is nowhere else to look.
    public func reload(_ ticket: SessionTicket, now: Timestamp) async throws(SessionStoreError) -> SessionLookup {
        lookup(ticket, now: now, slides: false)
    }
}
