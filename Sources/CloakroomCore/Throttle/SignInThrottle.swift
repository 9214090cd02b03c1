/// The rules by which attempts to sign in are held back, and the names they are counted by.
///
/// An account from one address, an address whatever the account, an account from everywhere. An attempt goes through if
/// none of the three holds it back. Unknown accounts count like any other: nobody here knows which are known.
///
/// Accounts are counted by the typed name, case-folded and normalised: before the upstream has accepted a password, no
/// other name is known. Many databases also take `jö` for `jo`, so that each accent would be five guesses more. All
/// spellings with marks, and those that case folding or normalisation form KC changes (`ı`, `ß`, full-width letters), are
/// therefore counted together as well (``ThrottleKey/Scope/spelling``), by the name without marks. A success forgets
/// failures only if the folded name is exactly the typed one (``isFolded(_:)``), and never those of that common count: an
/// attacker whose own account looks like another one, or differs from it in an accent only, cannot reset it. All spellings of a name together have twice the
/// attempts of one, whatever their number. Spellings that only the upstream knows to be one account (an alias, dots that
/// it ignores) are bounded by the address.
///
/// Two more rules bound all attempts, successful ones too: each sign-in makes the upstream check a password and issue
/// tokens, and one right password must not pay for any number of those.
public enum SignInThrottle {
    /// The most attempts of one account from one address in 10 minutes.
    public static let attemptsOfAccount: UInt32 = 20

    /// The rule for a scope.
    /// - Parameter attemptsPerAddress: The most attempts from one address in 10 minutes, 1...1,000,000.
    public static func rule(_ scope: ThrottleKey.Scope, attemptsPerAddress: Int = 100) -> ThrottleRule {
        switch scope {
        case .accountAndAddress: accountAndAddress
        case .address: address
        case .account: account
        case .spelling: accountAndAddress
        case .attemptsOfAccount: attempts(attemptsOfAccount)
        case .attempts: attempts(UInt32(clamping: max(1, attemptsPerAddress)))
        }
    }

    /// The names of an attempt, the narrowest first.
    /// - Parameters:
    ///   - address: The peer's, without port. What is no IP address is taken as it stands.
    ///   - key: The key that they are hashed under.
    public static func keys(account: AccountName, address: String, under key: KeyedHash) -> [ThrottleKey] {
        let block = ClientAddressKey(address)?.bytes ?? Array(address.utf8)
        let name = account.throttleBytes
        let base = account.throttleBytesWithoutMarks
        var keys = [
            makeKey(.accountAndAddress, [name, block], key), makeKey(.address, [block], key),
            makeKey(.account, [base], key),
        ]
        if base != account.canonicalBytes { keys.append(makeKey(.spelling, [base, block], key)) }
        return keys
    }

    /// The names that all attempts are counted by, successful ones too. Parameters as above.
    public static func attemptKeys(
        account: AccountName, address: String, under key: KeyedHash
    ) -> [ThrottleKey] {
        let block = ClientAddressKey(address)?.bytes ?? Array(address.utf8)
        return [
            makeKey(.attemptsOfAccount, [account.throttleBytes, block], key), makeKey(.attempts, [block], key),
        ]
    }

    /// Whether an account is counted by exactly its own name. Otherwise its failures may be those of another account that
    /// folds to the same name, and a success does not forget them.
    public static func isFolded(_ account: AccountName) -> Bool {
        account.canonicalBytes == account.throttleBytes
    }

    /// Seconds for `Retry-After` (RFC 9110 §10.2.3), rounded up: who comes back then does not come too early.
    public static func retryAfter(_ wait: Duration) -> Int {
        let milliseconds = max(1, wait.wholeMilliseconds)
        return Int(milliseconds / 1_000 + (milliseconds % 1_000 == 0 ? 0 : 1))
    }

    /// Five failures in two minutes, then a wait of 1 s that doubles up to 5 minutes.
    ///
    /// The count is forgotten after an hour without an attempt. In that time who goes on at the longest wait has twelve
    /// attempts, and who sits it out has thirteen until the waits are as long again: neither is the better way.
    private static let accountAndAddress = ThrottleRule(
        limit: 5, window: .seconds(120),
        delay: .doubling(first: .seconds(1), longest: .seconds(300), memory: .seconds(3_600)),
        maxDelay: .seconds(300))

    /// Thirty failures in ten minutes, then nothing until these are over. A sign-in that succeeds takes only itself
    /// back: with one account of their own, people could otherwise go on guessing for ever.
    private static let address = ThrottleRule(
        limit: 30, window: .seconds(600), delay: .window, maxDelay: .seconds(600))

    /// A hundred failures in an hour, then one attempt each three seconds until the hour is over.
    ///
    /// Never a lock: whoever knows an address could keep its owner out for good. Three seconds leave many guessers 1,200
    /// guesses an hour, which finds no password worth the name, and leave its owner, who is told to try again then, a
    /// chance at each turn. `maxDelay` is longer than the wait, so that replicas whose clocks differ a little still
    /// hold attempts back together.
    private static let account = ThrottleRule(
        limit: 100, window: .seconds(3_600), delay: .constant(.seconds(3)), maxDelay: .seconds(60))

    /// So many in ten minutes, then nothing until these are over.
    private static func attempts(_ limit: UInt32) -> ThrottleRule {
        ThrottleRule(limit: limit, window: .seconds(600), delay: .window, maxDelay: .seconds(600))
    }

    /// The scope and the lengths stand before the parts, so that no two names meet by where one part ends.
    private static func makeKey(_ scope: ThrottleKey.Scope, _ parts: [[UInt8]], _ key: KeyedHash) -> ThrottleKey {
        var bytes: [UInt8] = [scope.rawValue]
        for part in parts {
            bytes += UInt64(part.count).bigEndianBytes
            bytes += part
        }
        return ThrottleKey(scope, hash: key.hash(bytes))
    }
}
