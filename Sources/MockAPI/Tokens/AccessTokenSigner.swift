import Crypto
import FoundationEssentials

/// Signs and verifies access tokens: JWTs in compact form with HMAC SHA-256 (RFC 7515 §3.1, RFC 7518 §3.2).
struct AccessTokenSigner: Sendable {
    /// `{"alg":"HS256","typ":"JWT"}`. The only header issued and therefore the only one accepted: a token cannot choose
    /// its verification.
    private static let header = Base64URL.encode(#"{"alg":"HS256","typ":"JWT"}"#.utf8)

    private let key: SymmetricKey

    init(key: SymmetricKey) {
        self.key = key
    }

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
