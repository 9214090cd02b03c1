public import CloakroomCore
import Synchronization

extension MemorySessionStore {
    /// Acquires the lease; never throws.
    public func lease(
        _ key: SessionKey, for duration: Duration, now: Timestamp
    ) async throws(SessionStoreError) -> LeaseResult {
        shard(of: key.id).contents.withLock { $0.lease(key, for: duration, timeouts: timeouts, now: now) }
    }

    /// Saves refreshed tokens; never throws. A save may move the end of the session closer, but never further away.
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

    /// Releases the lease.
    public func release(_ lease: RefreshLease, of key: SessionKey) async {
        shard(of: key.id).contents.withLock { $0.release(lease, of: key) }
    }

    /// The same as a lookup that does not extend the idle timeout: memory is the only copy.
    public func reload(_ ticket: SessionTicket, now: Timestamp) async throws(SessionStoreError) -> SessionLookup {
        lookup(ticket, now: now, slides: false)
    }
}
