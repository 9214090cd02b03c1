import CloakroomCore
import Crypto
import Synchronization

/// What is counted of the clients that send credentials with each request, or sign in. One for the process: a reload of the
/// configuration permits no client more.
package final class ClientCounts: Sendable {
    /// The requests in flight of each access token, and of each name and password.
    let requests = RequestCounts()
    /// The sign-ins with Basic in progress.
    let signIns = ClientShares(BasicSignIns.maxFlights)
    /// Of the HMAC of names and passwords, by which they are counted.
    let key = SymmetricKey(size: .bits256)
    package let undecided = UndecidedAttempts()
    private let table = Mutex<RateLimitTable?>(nil)

    package init() {}

    /// Rejected access tokens, and failed proofs of their keys. Created when it is needed first, because its memory is
    /// allocated at once.
    var rejections: RateLimitTable {
        table.withLock { table in
            if let table { return table }
            let new = RateLimitTable(keys: VerifiedTokens.maxEntries)
            table = new
            return new
        }
    }
}
