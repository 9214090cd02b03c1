import Synchronization

/// What signs people in under the configuration in effect.
final class CurrentAccounts: Sendable {
    private let current: Mutex<Accounts>

    init(_ first: Accounts) {
        current = Mutex(first)
    }

    var accounts: Accounts { current.withLock { $0 } }

    func replace(with next: Accounts) {
        current.withLock { $0 = next }
    }
}
