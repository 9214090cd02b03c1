import FoundationEssentials
import Synchronization

/// The one ledger of a mock, behind a lock: of two requests with the same token exactly one gets its successor.
final class RefreshTokens: Sendable {
    private let ledger: Mutex<RefreshTokenLedger>

    init(lifetime: Duration) {
        ledger = Mutex(RefreshTokenLedger(lifetime: lifetime))
    }

    func issue(to accountID: String, now: Date) -> String {
        ledger.withLock { $0.issue(to: accountID, now: now) }
    }

    func rotate(_ token: Substring, now: Date) -> RefreshTokenLedger.Rotation {
        ledger.withLock { $0.rotate(token, now: now) }
    }

    func revoke(_ token: Substring) -> Bool {
        ledger.withLock { $0.revoke(token) }
    }
}
