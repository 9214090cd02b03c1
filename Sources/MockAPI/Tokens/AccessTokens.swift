import Crypto
import FoundationEssentials
import Synchronization

/// Issues and verifies access tokens.
final class AccessTokens: Sendable {
    private let signer: AccessTokenSigner
    private let lifetime: Duration
    private let era = Atomic<Int>(0)

    init(key: SymmetricKey, lifetime: Duration) {
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
