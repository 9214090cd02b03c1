import Crypto
import FoundationEssentials

/// The keys of a provider, and the signing of tokens, as JWS in compact form (RFC 7515 §3.1), with the scripted changes.
struct TokenForge: Sendable {
    /// The key that signs.
    private(set) var current: ProviderKey
    /// Earlier keys that remain published.
    private var earlier: [ProviderKey] = []
    private var retired: ProviderKey?
    private var count = 1
    private var weakKey: ProviderKey?

    init(_ algorithm: ProviderAlgorithm) throws {
        current = try ProviderKey(algorithm, id: "key-1")
    }

    /// - Parameter keepsOld: Whether the earlier keys remain published.
    mutating func rotate(keepsOld: Bool, hasShortCoordinate: Bool) throws {
        let id = "key-\(count + 1)"
        let next =
            try hasShortCoordinate
            ? ProviderKey(shortCoordinateID: id) : ProviderKey(current.algorithm, id: id)
        count += 1
        retired = current
        earlier = keepsOld ? [current] + earlier : []
        current = next
    }

    /// The key set (RFC 7517 §5).
    mutating func keySet(_ edit: KeySetEdit) throws -> String {
        var texts = edit.others
        if edit.hasWeakKey { texts.append(try findWeakKey().jwk().json) }
        for key in [current] + earlier {
            texts.append(try key.jwk(stripsZeros: edit.stripsZeros).applying(edit.keys).json)
        }
        return #"{"keys":[\#(texts.joined(separator: ","))]}"#
    }

    /// A token.
    /// - Parameter type: `typ`.
    mutating func token(type: String, _ claims: RawObject, _ forgery: TokenForgery, now: Date) throws -> String {
        if let replacement = forgery.replacement { return replacement }
        var claims = claims
        for (name, offset) in forgery.times.sorted(by: { $0.key < $1.key }) {
            let time = now.timeIntervalSince1970 + offset
            claims[name] = time == time.rounded() && abs(time) < 1e15 ? String(Int64(time)) : String(time)
        }
        let token = try sign(type, claims, forgery)
        let missing = min(forgery.minimumLength, 1 << 20) - token.utf8.count
        guard missing > 0 else { return token }
        claims["padding"] = RawJSON.string(String(repeating: "x", count: missing))
        return try sign(type, claims, forgery)
    }

    private mutating func sign(_ type: String, _ claims: RawObject, _ forgery: TokenForgery) throws -> String {
        let key = try signingKey(forgery.signature)
        var header = RawObject([
            ("typ", RawJSON.string(type)), ("alg", RawJSON.string(key.algorithm.rawValue)),
            ("kid", RawJSON.string(key.id)),
        ])
        switch forgery.signature {
        case .none: header["alg"] = #""none""#
        case .publicKeyAsSecret: header["alg"] = #""HS256""#
        case .encrypted: header["enc"] = #""A256GCM""#
        default: break
        }
        let signed =
            Base64URL.encode(header.applying(forgery.header).json.utf8) + "."
            + Base64URL.encode(claims.applying(forgery.claims).json.utf8)
        let bytes = Array(signed.utf8)
        switch forgery.signature {
        case .missing: return signed
        case .none: return signed + "."
        case .encrypted: return signed + ".AAAA.AAAA.AAAA"
        case .publicKeyAsSecret:
            let secret = SymmetricKey(data: Array(key.pem.utf8))
            return signed + "." + Base64URL.encode(HMAC<SHA256>.authenticationCode(for: bytes, using: secret))
        case .corrupt:
            var signature = try key.sign(bytes)
            if let last = signature.popLast() { signature.append(last ^ 1) }
            return signed + "." + Base64URL.encode(signature)
        case .valid, .otherKey, .unknownKey, .retiredKey, .weakKey:
            return signed + "." + Base64URL.encode(try key.sign(bytes))
        }
    }

    private mutating func signingKey(_ signature: TokenForgery.Signature) throws -> ProviderKey {
        switch signature {
        case .otherKey: try ProviderKey(current.algorithm, id: current.id)
        case .unknownKey: try ProviderKey(current.algorithm, id: RandomToken.make())
        case .retiredKey: retired ?? current
        case .weakKey: try findWeakKey()
        default: current
        }
    }

    private mutating func findWeakKey() throws -> ProviderKey {
        if let weakKey { return weakKey }
        let key = try ProviderKey(weakID: "weak")
        weakKey = key
        return key
    }
}
