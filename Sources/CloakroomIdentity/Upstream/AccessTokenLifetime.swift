import CloakroomCore
import FoundationEssentials

/// When an access token ends, as far as can be told.
///
/// A lifetime that makes no sense is over already; it never means that the token is good for ever. Where nothing is said
/// there is no time, and the token is used until the upstream refuses it.
enum AccessTokenLifetime {
    /// Whatever ends later than this is nonsense: the year 10000, in seconds since the epoch.
    private static let latest = 253_402_300_800.0

    /// Reads the lifetime in seconds that a token answer told (RFC 6749 §5.1).
    static func end(ofSeconds value: JSONValue, now: Timestamp) -> Timestamp {
        guard case .number(let seconds) = value else { return now }
        return end(atSecond: Double(now.milliseconds) / 1_000 + seconds, now: now)
    }

    /// Reads `exp` of a JWT (RFC 7519 §4.1.4). Nothing is verified: the upstream does that whenever it gets the token.
    /// - Returns: `nil` for what is no JWT, or one that tells no end.
    static func end(ofJWT token: [UInt8], now: Timestamp) -> Timestamp? {
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let payload = decodeBase64URL(parts[1]),
            case .object(let claims) = JSONValue(document: payload), let exp = claims["exp"], exp != .null
        else { return nil }
        guard case .number(let second) = exp else { return now }
        return end(atSecond: second, now: now)
    }

    private static func end(atSecond second: Double, now: Timestamp) -> Timestamp {
        guard second.isFinite, second > 0, second < latest else { return now }
        return max(now, Timestamp(milliseconds: Int64(second * 1_000)))
    }

    /// Base64url without padding (RFC 7515 §2), which Foundation knows with padding and another alphabet.
    private static func decodeBase64URL(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        var base64 = text.map { byte in
            switch byte {
            case UInt8(ascii: "-"): UInt8(ascii: "+")
            case UInt8(ascii: "_"): UInt8(ascii: "/")
            default: byte
            }
        }
        base64.append(contentsOf: repeatElement(UInt8(ascii: "="), count: (4 - base64.count % 4) % 4))
        return Data(base64Encoded: Data(base64)).map(Array.init)
    }
}
