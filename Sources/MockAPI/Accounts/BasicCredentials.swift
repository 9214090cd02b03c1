import FoundationEssentials
import Hummingbird

/// The user-id and password of `Authorization: Basic` in UTF-8 (RFC 7617 §2, §2.1).
struct BasicCredentials: Redacted {
    let email: String
    let password: String

    /// `nil` if the field is missing, repeated, of another scheme, not base 64, not UTF-8 or without a colon.
    ///
    /// The first colon separates: a user-id cannot contain one, a password can.
    init?(_ fields: HTTPFields) {
        guard let encoded = AuthorizationCredentials.read(from: fields, scheme: "basic"),
            let bytes = Data(base64Encoded: String(encoded)),
            let text = String(validating: bytes, as: UTF8.self),
            let colon = text.utf8.firstIndex(of: UInt8(ascii: ":"))
        else { return nil }
        email = String(text[..<colon])
        password = String(text[text.utf8.index(after: colon)...])
    }
}
