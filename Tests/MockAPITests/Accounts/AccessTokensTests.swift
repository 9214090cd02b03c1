import Crypto
import FoundationEssentials
import Testing

@testable import MockAPI

struct AccessTokensTests {
    private let key = SymmetricKey(data: Array(repeating: 7, count: 32))
    private let now = Date(timeIntervalSince1970: 1_750_000_000)

    private func claims(of token: String) throws -> AccessTokenClaims {
        let payload = try #require(Base64URL.decode(token.split(separator: ".")[1]))
        return try JSONDecoder().decode(AccessTokenClaims.self, from: Data(payload))
    }

    @Test("a token contains its subject, the time of issue and the expiry")
    func claims() throws {
        let tokens = AccessTokens(key: key, lifetime: .seconds(300))
        let claims = try claims(of: tokens.issue(to: "usr_1", now: now))
        #expect(claims.sub == "usr_1")
        #expect(claims.iat == 1_750_000_000)
        #expect(claims.exp == 1_750_000_300)
    }

    @Test("two tokens issued at the same time have different ids")
    func uniqueID() throws {
        let tokens = AccessTokens(key: key, lifetime: .seconds(300))
        let first = try claims(of: tokens.issue(to: "usr_1", now: now))
        let second = try claims(of: tokens.issue(to: "usr_1", now: now))
        #expect(first.jti != second.jti)
    }

    @Test("a token is valid until one second before exp and invalid at exp")
    func expiry() throws {
        let tokens = AccessTokens(key: key, lifetime: .seconds(300))
        let token = try tokens.issue(to: "usr_1", now: now)
        #expect(tokens.accountID(for: token, now: now.addingTimeInterval(299.9)) == "usr_1")
        #expect(tokens.accountID(for: token, now: now.addingTimeInterval(300)) == nil)
    }

    @Test("a token of the older dialect has no exp and does not expire")
    func withoutExpiry() throws {
        let tokens = AccessTokens(key: key, lifetime: .seconds(300))
        let token = try tokens.issue(to: "usr_1", now: now, expires: false)
        #expect(try claims(of: token).exp == nil)
        #expect(tokens.accountID(for: token, now: now.addingTimeInterval(1e9)) == "usr_1")
    }

    @Test("a token that was signed with another key, or that was changed, is invalid")
    func forged() throws {
        let tokens = AccessTokens(key: key, lifetime: .seconds(300))
        let token = try tokens.issue(to: "usr_1", now: now)
        let other = AccessTokens(key: SymmetricKey(size: .bits256), lifetime: .seconds(300))
        #expect(other.accountID(for: token, now: now) == nil)

        let parts = token.split(separator: ".").map(String.init)
        let payload = Base64URL.encode(#"{"sub":"usr_2","iat":1,"exp":9999999999,"jti":"x","era":0}"#.utf8)
        let unsigned = Base64URL.encode(#"{"alg":"none","typ":"JWT"}"#.utf8)
        let forgeries = [
            "\(parts[0]).\(payload).\(parts[2])", "\(unsigned).\(parts[1]).", "\(unsigned).\(parts[1]).\(parts[2])",
            "\(parts[0]).\(parts[1])", "\(parts[0]).\(parts[1]).", "\(token).", "\(token)=", "..", "",
        ]
        for forgery in forgeries {
            #expect(tokens.accountID(for: forgery, now: now) == nil)
        }
        #expect(tokens.accountID(for: token, now: now) == "usr_1")
    }

    @Test("rejecting issued tokens does not affect tokens issued later")
    func rejection() throws {
        let tokens = AccessTokens(key: key, lifetime: .seconds(300))
        let old = try tokens.issue(to: "usr_1", now: now)
        tokens.rejectAllIssued()
        let new = try tokens.issue(to: "usr_1", now: now)
        #expect(tokens.accountID(for: old, now: now) == nil)
        #expect(tokens.accountID(for: new, now: now) == "usr_1")
    }

    @Test("a signature is an HMAC as in RFC 7515 appendix A.1")
    func interoperability() throws {
        let token = try AccessTokenSigner(key: key).sign(
            AccessTokenClaims(sub: "a", iat: 1, exp: 2, jti: "j", era: 0))
        let parts = token.split(separator: ".")
        let code = HMAC<SHA256>.authenticationCode(for: Data("\(parts[0]).\(parts[1])".utf8), using: key)
        #expect(Base64URL.decode(parts[2]) == Array(code))
        #expect(Base64URL.decode(parts[0]) == Array(#"{"alg":"HS256","typ":"JWT"}"#.utf8))
    }
}
