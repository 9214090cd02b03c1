import FoundationEssentials
import Synchronization

/// The token store of a mock, protected by a lock: of two requests with the same token exactly one gets its successor.
final class RefreshTokens: Sendable {
    private let store: Mutex<RefreshTokenStore>

    init(lifetime: Duration) {
        store = Mutex(RefreshTokenStore(lifetime: lifetime))
    }

    func issue(to accountID: String, now: Date) -> String {
        store.withLock { $0.issue(to: accountID, now: now) }
    }

    func rotate(_ token: Substring, now: Date) -> RefreshTokenStore.Rotation {
        store.withLock { $0.rotate(token, now: now) }
    }

    func revoke(_ token: Substring) -> Bool {
        store.withLock { $0.revoke(token) }
    }
}
