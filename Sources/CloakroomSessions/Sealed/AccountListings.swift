import CloakroomCore
import Synchronization

/// The listings of sessions in progress: of an account one at a time, and one that waits for it, which all further requests
/// for the account share.
///
/// One that has begun is not joined, unlike the read of a session: no change is reported for a session that is created
/// meanwhile, such as that of the request.
final class AccountListings: Sendable {
    typealias Listing = Task<Result<[SessionSummary], SessionStoreError>, Never>

    private struct Latest {
        let listing: Listing
        var hasBegun = false
    }

    private let accounts = Mutex<[AccountName: Latest]>([:])

    /// The listing that an account's requests share from now on.
    func listing(
        of account: AccountName, _ list: @escaping @Sendable () async -> Result<[SessionSummary], SessionStoreError>
    ) -> Listing {
        accounts.withLock { accounts in
            let latest = accounts[account]
            if let latest, !latest.hasBegun { return latest.listing }
            let listing = Task {
                _ = await latest?.listing.value
                self.accounts.withLock { $0[account]?.hasBegun = true }
                let result = await list()
                // The next one has not begun, and stays.
                self.accounts.withLock { if $0[account]?.hasBegun == true { $0[account] = nil } }
                return result
            }
            accounts[account] = Latest(listing: listing)
            return listing
        }
    }
}
