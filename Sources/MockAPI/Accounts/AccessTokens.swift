import Crypto
import FoundationEssentials
import Synchronization

/// Issues and verifies access tokens.
final class AccessTokens: Sendable {
    private let signer: AccessTokenSigner
    private let lifetime: Duration
    private let era = Atomic<Int>(0)

    init(key: SymmetricKey = SymmetricKey(size: .bits256), lifetime: Duration) {
        signer = AccessTokenSigner(key: key)
        self.lifetime = lifetime
    }

    /// A token valid until `now` plus the lifetime or, with `expires` false, while the mock runs.
    func issue(to accountID: String, now: Date, expires: Bool = true) throws -> String {
        let issuedAt = now.timeIntervalSince1970.rounded(.down)
        return try signer.sign(
            AccessTokenClaims(
                sub: accountID,
                iat: Int(issuedAt),
                exp: expires ? Int(min(issuedAt + lifetime.inSeconds, 1e15)) : nil,
                jti: RandomToken.make(),
                era: era.load(ordering: .relaxed)))
    }

    /// The account id of the token; `nil` if the token is forged, expired or rejected.
    func accountID(for token: some StringProtocol, now: Date) -> String? {
        guard let claims = signer.verify(token), claims.era == era.load(ordering: .relaxed) else { return nil }
        if let expiry = claims.exp, now.timeIntervalSince1970 >= Double(expiry) { return nil }
        return claims.sub
    }

    /// Rejects all tokens issued so far, regardless of their `exp`.
    func rejectAllIssued() {
        era.wrappingAdd(1, ordering: .relaxed)
    }
}

/// Signs and verifies access tokens: JWTs in compact form with HMAC SHA-256 (RFC 7515 §3.1, RFC 7518 §3.2).
struct AccessTokenSigner: Sendable {
    /// `{"alg":"HS256","typ":"JWT"}`. The only header issued and therefore the only one accepted: a token cannot choose
    /// its verification.
    private static let header = Base64URL.encode(#"{"alg":"HS256","typ":"JWT"}"#.utf8)

    let key: SymmetricKey

    func sign(_ claims: AccessTokenClaims) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let signed = Self.header + "." + Base64URL.encode(try encoder.encode(claims))
        let code = HMAC<SHA256>.authenticationCode(for: Array(signed.utf8), using: key)
        return signed + "." + Base64URL.encode(code)
    }

    /// `nil` if the token was not signed with this key. Does not check the expiry.
    func verify(_ token: some StringProtocol) -> AccessTokenClaims? {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == Self.header, let code = Base64URL.decode(parts[2]) else { return nil }
        let signed = Array("\(parts[0]).\(parts[1])".utf8)
        guard HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: signed, using: key),
            let payload = Base64URL.decode(parts[1])
        else { return nil }
        return try? JSONDecoder().decode(AccessTokenClaims.self, from: Data(payload))
    }
}

/// The claims of an access token (RFC 7519 §4.1), with one private claim.
struct AccessTokenClaims: Codable, Equatable, Sendable {
    /// The account's id.
    let sub: String
    /// The time of issue, in seconds since 1970.
    let iat: Int
    /// The expiry, in seconds since 1970. Tokens of the older API have none.
    let exp: Int?
    /// A unique id.
    let jti: String
    /// The era of issue; see `AccessTokens.rejectAllIssued()`.
    let era: Int
}

/// Opaque tokens: 32 bytes of the system's secure random source as 43 characters of base 64 URL.
enum RandomToken {
    static func make() -> String {
        var random = SystemRandomNumberGenerator()
        return Base64URL.encode((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) })
    }
}
