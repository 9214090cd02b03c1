import Crypto
import FoundationEssentials

/// Which refresh tokens are out, which are spent, and which families are dead (rotation as in RFC 9700 §4.14.2).
///
/// A family is everything that came from one sign-in. Every token is good once; one that comes back a second time
/// was copied by somebody, and as nobody can tell who is the thief, the whole family dies. Tokens are kept by hash.
struct RefreshTokenStore {
    /// What came of presenting a refresh token.
    enum Rotation: Equatable {
        /// It is spent now; this one takes its place.
        case rotated(refreshToken: String, accountID: String)
        /// It had been spent before; the family is dead.
        case reused
        /// It is unknown, expired or of a dead family.
        case rejected
    }

    private struct Record {
        let family: Int
        let expiresAt: Date
        var isSpent = false
    }

    private struct Family {
        let accountID: String
        var isDead = false
    }

    private let lifetime: Duration
    private var records: [SHA256Digest: Record] = [:]
    private var families: [Int: Family] = [:]
    private var nextFamily = 0
    private var sweepAt = 1024

    init(lifetime: Duration) {
        self.lifetime = lifetime
    }

    /// The first token of a new family.
    mutating func issue(to accountID: String, now: Date) -> String {
        sweepIfDue(now: now)
        let family = nextFamily
        nextFamily += 1
        families[family] = Family(accountID: accountID)
        return addToken(to: family, now: now)
    }

    mutating func rotate(_ token: some StringProtocol, now: Date) -> Rotation {
        let key = Self.key(of: token)
        guard let record = records[key], let family = families[record.family] else { return .rejected }
        if record.isSpent {
            families[record.family]?.isDead = true
            return .reused
        }
        guard !family.isDead, now < record.expiresAt else { return .rejected }
        records[key]?.isSpent = true
        let successor = addToken(to: record.family, now: now)
        return .rotated(refreshToken: successor, accountID: family.accountID)
    }

    /// Whether the token was one of ours. Revoking a family that is dead already is no error (RFC 7009 §2.2).
    mutating func revoke(_ token: some StringProtocol) -> Bool {
        guard let record = records[Self.key(of: token)] else { return false }
        families[record.family]?.isDead = true
        return true
    }

    private mutating func addToken(to family: Int, now: Date) -> String {
        let token = RandomToken.make()
        records[Self.key(of: token)] = Record(family: family, expiresAt: now.addingTimeInterval(lifetime.inSeconds))
        return token
    }

    /// Forgets what has expired, each time the ledger has doubled, so that a long run does not grow without end.
    private mutating func sweepIfDue(now: Date) {
        guard records.count >= sweepAt else { return }
        records = records.filter { now < $0.value.expiresAt }
        let living = Set(records.values.map(\.family))
        families = families.filter { living.contains($0.key) }
        sweepAt = max(1024, records.count * 2)
    }

    private static func key(of token: some StringProtocol) -> SHA256Digest {
        SHA256.hash(data: Array(token.utf8))
    }
}
