import Crypto
import FoundationEssentials

/// The keys of a provider, and the signing of tokens, as JWS in compact form (RFC 7515 §3.1), with the scripted changes.
struct TokenForge: Sendable {
    /// The key that signs.
    private(set) var current: ProviderKey
    /// Earlier keys that remain published.
    private var earlier: [ProviderKey] = []
    private var count = 1

    init(_ algorithm: ProviderAlgorithm) throws {
        current = try ProviderKey(algorithm, id: "key-1")
    }

    /// - Parameter keepsOld: Whether the earlier keys remain published.
    mutating func rotate(keepsOld: Bool) throws {
        let next = try ProviderKey(current.algorithm, id: "key-\(count + 1)")
        count += 1
        earlier = keepsOld ? [current] + earlier : []
        current = next
    }

    /// The key set (RFC 7517 §5).
    func keySet() throws -> String {
        let texts = try ([current] + earlier).map { try $0.jwk().json }
        return #"{"keys":[\#(texts.joined(separator: ","))]}"#
    }

    /// A token.
    /// - Parameter type: `typ`.
    func token(type: String, _ claims: RawObject, _ forgery: TokenForgery, now: Date) throws -> String {
        var claims = claims
        for (name, offset) in forgery.times.sorted(by: { $0.key < $1.key }) {
            let time = now.timeIntervalSince1970 + offset
            claims[name] = time == time.rounded() && abs(time) < 1e15 ? String(Int64(time)) : String(time)
        }
        return try sign(type, claims, forgery)
    }

    private func sign(_ type: String, _ claims: RawObject, _ forgery: TokenForgery) throws -> String {
        let key =
            forgery.signature == .otherKey ? try ProviderKey(current.algorithm, id: current.id) : current
        var header = RawObject([
            ("typ", RawJSON.string(type)), ("alg", RawJSON.string(key.algorithm.rawValue)),
            ("kid", RawJSON.string(key.id)),
        ])
        switch forgery.signature {
        case .none: header["alg"] = #""none""#
        case .publicKeyAsSecret: header["alg"] = #""HS256""#
        case .valid, .otherKey: break
        }
        let signed =
            Base64URL.encode(header.applying(forgery.header).json.utf8) + "."
            + Base64URL.encode(claims.applying(forgery.claims).json.utf8)
        let bytes = Array(signed.utf8)
        switch forgery.signature {
        case .none: return signed + "."
        case .publicKeyAsSecret:
            let secret = SymmetricKey(data: Array(key.pem.utf8))
            return signed + "." + Base64URL.encode(HMAC<SHA256>.authenticationCode(for: bytes, using: secret))
        case .valid, .otherKey: return signed + "." + Base64URL.encode(try key.sign(bytes))
        }
    }
}
