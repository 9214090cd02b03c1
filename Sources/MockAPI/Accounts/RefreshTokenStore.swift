import Crypto
import FoundationEssentials
import Synchronization

/// The active and used refresh tokens and the revoked families (rotation as in RFC 9700 §4.14.2).
///
/// A family is all tokens of one sign-in. Each token can be used once. Reuse means that the token was copied; because
/// the legitimate holder is unknown, the whole family is revoked. Tokens are stored as hashes.
struct RefreshTokenStore {
    /// The result of presenting a refresh token.
    enum Rotation: Equatable {
        /// The token is now used; this is its successor.
        case rotated(refreshToken: String, accountID: String)
        /// The token was already used; the family is revoked.
        case reused
        /// The token is unknown, expired or of a revoked family.
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

    /// Revokes the family of a token; returns whether the mock issued the token. Revoking a revoked family is not an
    /// error (RFC 7009 §2.2).
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

    /// Removes expired entries each time the store has doubled, which bounds its size.
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

/// Signs users in and issues their tokens. Thread-safe: of two requests with the same refresh token exactly one gets its
/// successor.
final class TokenIssuer: Sendable {
    let accounts: AccountStore
    let accessTokens: AccessTokens
    private let refreshTokens: Mutex<RefreshTokenStore>
    private let observations: RequestRecorder
    private let now: @Sendable () -> Date

    init(_ settings: MockAPISettings, observations: RequestRecorder) {
        accounts = AccountStore(settings.users)
        accessTokens = AccessTokens(lifetime: settings.accessTokenLifetime)
        refreshTokens = Mutex(RefreshTokenStore(lifetime: settings.refreshTokenLifetime))
        self.observations = observations
        now = settings.now
    }

    /// The tokens of a new sign-in; `nil` for wrong credentials.
    func signIn(_ credentials: BasicCredentials) throws -> TokenPair? {
        guard let account = accounts.authenticate(credentials) else { return nil }
        let now = now()
        return try TokenPair(
            accessToken: accessTokens.issue(to: account.id, now: now),
            refreshToken: refreshTokens.withLock { $0.issue(to: account.id, now: now) })
    }

    /// The tokens for a refresh token; `nil` if it is not usable.
    func refresh(_ token: some StringProtocol) throws -> TokenPair? {
        let now = now()
        switch refreshTokens.withLock({ $0.rotate(token, now: now) }) {
        case .rotated(let refreshToken, let accountID):
            observations.recordRefresh(at: now.timeIntervalSince1970)
            return TokenPair(
                accessToken: try accessTokens.issue(to: accountID, now: now), refreshToken: refreshToken)
        case .reused:
            observations.recordReuse()
            return nil
        case .rejected: return nil
        }
    }

    /// Revokes a refresh token; returns whether the mock issued it.
    func revoke(_ token: some StringProtocol) -> Bool {
        refreshTokens.withLock { $0.revoke(token) }
    }

    /// An access token that does not expire; `nil` for wrong credentials.
    func signInWithoutRefresh(_ credentials: BasicCredentials) throws -> AccessTokenOnly? {
        try accounts.authenticate(credentials).map {
            AccessTokenOnly(accessToken: try accessTokens.issue(to: $0.id, now: now(), expires: false))
        }
    }

    /// The account of an access token; `nil` if the token is not valid.
    func account(of token: some StringProtocol) -> Account? {
        accessTokens.accountID(for: token, now: now()).flatMap(accounts.account(withID:))
    }
}

/// The response to `POST /auth` and `POST /auth/refresh`.
struct TokenPair: Encodable, Redacted {
    let accessToken: String
    let refreshToken: String
}

/// The response to `POST /api/v1/signin`, the older API: without refresh token and lifetime.
struct AccessTokenOnly: Encodable, Redacted {
    let accessToken: String
}
