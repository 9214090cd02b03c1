import Crypto
import FoundationEssentials
import TestSupport
import Testing

@testable import MockAPI

struct AccessTokensTests {
    private let key = SymmetricKey(data: Array(repeating: 7, count: 32))
    private let now = Date(timeIntervalSince1970: 1_750_000_000)

    private func claims(of token: String) throws -> AccessTokenClaims {
        let payload = try require(Base64URL.decode(token.split(separator: ".")[1]))
        return try JSONDecoder().decode(AccessTokenClaims.self, from: Data(payload))
    }

    @Test("a token contains its subject, the time of issue and the expiry")
    func claims() throws {
        let tokens = AccessTokens(key: key, lifetime: .seconds(300))
        let claims = try claims(of: tokens.issue(to: "usr_1", now: now))
        expect(claims.sub, equals: "usr_1")
        expect(claims.iat, equals: 1_750_000_000)
        expect(claims.exp, equals: 1_750_000_300)
    }

    @Test("a token that was signed with another key, or that was changed, is invalid")
    func forged() throws {
        let tokens = AccessTokens(key: key, lifetime: .seconds(300))
        let token = try tokens.issue(to: "usr_1", now: now)
        let other = AccessTokens(key: SymmetricKey(size: .bits256), lifetime: .seconds(300))
        expect(other.accountID(for: token, now: now), equals: nil)

        let parts = token.split(separator: ".").map(String.init)
        let payload = Base64URL.encode(#"{"sub":"usr_2","iat":1,"exp":9999999999,"jti":"x","era":0}"#.utf8)
        let unsigned = Base64URL.encode(#"{"alg":"none","typ":"JWT"}"#.utf8)
        let forgeries = [
            "\(parts[0]).\(payload).\(parts[2])", "\(unsigned).\(parts[1]).", "\(unsigned).\(parts[1]).\(parts[2])",
            "\(parts[0]).\(parts[1])", "\(parts[0]).\(parts[1]).", "\(token).", "\(token)=", "..", "",
        ]
        for forgery in forgeries {
            expect(tokens.accountID(for: forgery, now: now), equals: nil)
        }
        expect(tokens.accountID(for: token, now: now), equals: "usr_1")
    }
}
