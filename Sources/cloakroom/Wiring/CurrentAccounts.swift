import Synchronization

/// What signs people in under the configuration in effect.
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
