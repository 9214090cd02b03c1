import Synchronization

/// Holds the `Accounts` of the current configuration.
final class CurrentAccounts: Sendable {
    private let current: Mutex<IdentityComponents>

    init(_ first: IdentityComponents) {
        current = Mutex(first)
    }

    var accounts: IdentityComponents { current.withLock { $0 } }

    func replace(with next: IdentityComponents) {
        current.withLock { $0 = next }
    }
}
