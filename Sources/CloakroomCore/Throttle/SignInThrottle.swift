/// The rules that throttle sign-in attempts, and the keys by which attempts are counted.
///
/// Attempts are counted for an account from one address, for an address regardless of the account, and for an account
/// from all addresses. An attempt is allowed if none of the three rules delays it. Unknown accounts count like any
/// other, because the gateway does not know which accounts exist.
///
/// Accounts are counted by the typed name, case-folded and normalized: before the upstream has accepted a password, no
/// other name is known. Many databases also accept `jö` for `jo`, so that each accent would allow five more guesses.
/// All spellings with marks, and those that case folding or normalization form KC changes (`ı`, `ß`, full-width
/// letters), are therefore also counted together (``ThrottleKey/Scope/spelling``), by the name without marks. A success
/// resets failures only if the folded name is exactly the typed one (``isFolded(_:)``), and never those of that common
/// count: an attacker whose own account is visually similar to another one, or differs from it only in an accent,
/// cannot reset it. All spellings of a name together have twice the attempts of one, whatever their number. Spellings
/// that only the upstream knows to be one account (an alias, dots that it ignores) are limited by the address.
///
/// Two more rules limit all attempts, including successful ones: each sign-in makes the upstream check a password and
/// issue tokens, so one valid password must not permit an unlimited number of them.
public enum SignInThrottle {
    /// The maximum number of attempts for one account from one address in 10 minutes.
    public static let attemptsOfAccount: UInt32 = 20

    /// Returns the rule of a scope.
    /// - Parameter attemptsPerAddress: The maximum number of attempts from one address in 10 minutes, 1...1,000,000.
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

    /// Returns the keys of an attempt, the narrowest first.
    /// - Parameters:
    ///   - address: The peer's address, without port. Text that is not an IP address is used unchanged.
    ///   - key: The key for hashing.
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

    /// Returns the keys by which all attempts are counted, including successful ones. Parameters as above.
    public static func attemptKeys(
        account: AccountName, address: String, under key: KeyedHash
    ) -> [ThrottleKey] {
        let block = ClientAddressKey(address)?.bytes ?? Array(address.utf8)
        return [
            makeKey(.attemptsOfAccount, [account.throttleBytes, block], key), makeKey(.attempts, [block], key),
        ]
    }

    /// Whether an account is counted by exactly its own name. Otherwise its failures may belong to another account that
    /// folds to the same name, and a success does not reset them.
    public static func isFolded(_ account: AccountName) -> Bool {
        account.canonicalBytes == account.throttleBytes
    }

    /// Returns the seconds for `Retry-After` (RFC 9110 §10.2.3), rounded up, so that a retry after them is not too
    /// early.
    public static func retryAfter(_ wait: Duration) -> Int {
        let milliseconds = max(1, wait.wholeMilliseconds)
        return Int(milliseconds / 1_000 + (milliseconds % 1_000 == 0 ? 0 : 1))
    }

    /// Five failures in two minutes, then a wait of 1 s that doubles up to 5 minutes.
    ///
    /// The count expires after an hour without an attempt. In that hour a client that continues at the maximum wait has
    /// twelve attempts; a client that pauses has thirteen until the waits are as long again. Neither strategy is
    /// better.
    private static let accountAndAddress = ThrottleRule(
        limit: 5, window: .seconds(120),
        delay: .doubling(first: .seconds(1), longest: .seconds(300), memory: .seconds(3_600)),
        maxDelay: .seconds(300))

    /// Thirty failures in ten minutes, then no attempts until the ten minutes are over. A successful sign-in removes
    /// only its own attempt: otherwise an attacker with an account could reset the count and guess indefinitely.
    private static let address = ThrottleRule(
        limit: 30, window: .seconds(600), delay: .window, maxDelay: .seconds(600))

    /// A hundred failures in an hour, then one attempt every three seconds until the hour is over.
    ///
    /// Never a lock: an attacker who knows an e-mail address could otherwise lock out its owner permanently. Three
    /// seconds leave many attackers 1,200 guesses an hour, which is too few to find a reasonable password, and leave
    /// the owner, who receives the wait as `Retry-After`, a chance at each turn. `maxDelay` is longer than the wait,
    /// so that replicas with slightly different clocks still throttle attempts together.
    private static let account = ThrottleRule(
        limit: 100, window: .seconds(3_600), delay: .constant(.seconds(3)), maxDelay: .seconds(60))

    /// At most `limit` attempts in ten minutes, then none until they are over.
    private static func attempts(_ limit: UInt32) -> ThrottleRule {
        ThrottleRule(limit: limit, window: .seconds(600), delay: .window, maxDelay: .seconds(600))
    }

    /// The scope and the lengths precede the parts, so that different parts never have the same concatenation.
    private static func makeKey(_ scope: ThrottleKey.Scope, _ parts: [[UInt8]], _ key: KeyedHash) -> ThrottleKey {
        var bytes: [UInt8] = [scope.rawValue]
        for part in parts {
            bytes += UInt64(part.count).bigEndianBytes
            bytes += part
        }
        return ThrottleKey(scope, hash: key.hash(bytes))
    }
}
