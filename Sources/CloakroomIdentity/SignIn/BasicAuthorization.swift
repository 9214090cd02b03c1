import CloakroomCore
import FoundationEssentials

/// Reads `Authorization: Basic` in UTF-8 (RFC 7617).
enum BasicAuthorization {
    enum ParseResult {
        /// Another scheme, which a sign-in ignores.
        case otherScheme
        /// A malformed `Basic` value.
        case malformed
        /// A name and a password, separated by the first colon.
        case pair(name: String, password: Secret)
    }

    static func read(_ authorization: Secret) -> ParseResult {
        let words = authorization.bytes.split(separator: 0x20, maxSplits: 1, omittingEmptySubsequences: false)
        guard let scheme = words.first, String(decoding: scheme, as: UTF8.self).lowercased() == "basic" else {
            return .otherScheme
        }
        guard words.count == 2, let decoded = Data(base64Encoded: Data(words[1].drop { $0 == 0x20 })),
            String(validating: decoded, as: UTF8.self) != nil, let colon = decoded.firstIndex(of: UInt8(ascii: ":"))
        else { return .malformed }
        let name = String(decoding: decoded[..<colon], as: UTF8.self)
        return .pair(name: name, password: Secret(bytes: Array(decoded[decoded.index(after: colon)...])))
    }
}
