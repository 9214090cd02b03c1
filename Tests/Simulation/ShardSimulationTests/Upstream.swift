import CloakroomCore
import TestSupport

@testable import CloakroomSessions

/// The identity provider: accepts each refresh token once, and revokes all tokens of a session whose token is spent
/// again.
struct Upstream {
    /// An access token and a refresh token of one token response.
    struct Pair {
        let session: Int
        /// The refresh that spent the token; -1 for none.
        var spentBy = -1
        var spentAt: Int64 = 0
    }

    private(set) var pairs: [Pair] = []
    private(set) var isRevoked: [Bool]

    init(sessions: Int) { isRevoked = Array(repeating: false, count: sessions) }

    /// Issues the first pair of a session.
    mutating func issue(_ session: Int) -> Int {
        pairs.append(Pair(session: session))
        return pairs.count - 1
    }

    /// - Returns: The new pair, or the refresh that had spent the token before.
    mutating func refresh(_ pair: Int, by refresh: Int, now: Int64) -> (pair: Int?, spentBefore: Int?) {
        let session = pairs[pair].session
        guard !isRevoked[session] else { return (nil, nil) }
        guard pairs[pair].spentBy < 0 else {
            isRevoked[session] = true
            return (nil, pairs[pair].spentBy)
        }
        pairs[pair].spentBy = refresh
        pairs[pair].spentAt = now
        return (issue(session), nil)
    }
}

/// Sessions and pairs as types of the gateway, with names and secrets that contain their index.
enum Names {
    /// The initial time of all clocks.
    static let epoch: Int64 = 1_700_000_000_000

    static let keys = ValkeyKeys(prefix: "c")

    static func hash(account: Int) -> UInt64 { UInt64(account + 1) }
    static func mark(_ mark: Int) -> MarkKey { MarkKey(.usedLogin, hash: UInt64(mark + 1)) }

    /// The hash slot of each slot, and the slot of each hash slot: no two keys share one, and the others are in three
    /// ranges.
    static func slots(_ settings: Settings) -> (hashSlots: [Int], places: [Int]) {
        let names =
            (0..<settings.allSessions).map { keys.session(key($0).id) }
            + (0..<settings.accounts).map { keys.cutoff(.account(hash(account: $0))) }
            + (0..<settings.marks).map { keys.mark(mark($0)) } + (0..<settings.throttleKeys).map { "throttle \($0)" }
        var hashSlots = names.map { Int(HashSlot.slot(of: $0)) }
        precondition(Set(hashSlots).count == hashSlots.count)
        var places = HashSlot.all.map { settings.keyedSlots + $0 * Settings.shards / HashSlot.count }
        for (place, slot) in hashSlots.enumerated() { places[slot] = place }
        for shard in 0..<Settings.shards {
            hashSlots.append(places.firstIndex(of: settings.keyedSlots + shard) ?? 0)
        }
        return (hashSlots, places)
    }

    static func key(_ session: Int) -> SessionKey {
        // Four words that differ between sessions; the last one spreads the refreshes.
        var random = SeededGenerator(seed: UInt64(session) &+ 77)
        return SessionKey(random.next(), random.next(), random.next(), random.next())
    }

    static func tokens(_ pair: Int, from start: WallTime, life: Int64) -> TokenSet {
        let low = UInt8(truncatingIfNeeded: pair)
        let high = UInt8(truncatingIfNeeded: pair >> 8)
        return TokenSet(
            authorization: Secret(bytes: [0x61, high, low]), refreshToken: Secret(bytes: [0x72, high, low]),
            accessTokenExpiresAt: start + .milliseconds(life), obtainedAt: start)
    }

    static func pair(_ session: Session) -> Int {
        let bytes = session.authorization.bytes
        return bytes.count == 3 ? Int(bytes[1]) << 8 | Int(bytes[2]) : -1
    }

    static func session(_ index: Int, account: Int, pair: Int, at start: SessionTime, life: Int64) -> Session {
        let user = UserProfile(json: [], account: AccountName(canonicalBytes: [UInt8(account)]))
        return Session(
            key: key(index), user: user, tokens: tokens(pair, from: start.wallTime, life: life), createdAt: start,
            expiresAt: start + .milliseconds(86_400_000), lastUsedAt: start)
    }
}
