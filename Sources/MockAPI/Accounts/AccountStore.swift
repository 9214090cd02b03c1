import Crypto
import FoundationEssentials
import NIOHTTP1
import Synchronization

/// The account representation of `GET /user`.
struct Account: Encodable, Sendable {
    let id: String
    let email: String
    var name: String
    let isNewUser = false
    /// 15 January 2025, 09:30 UTC.
    let createdAt = Date(timeIntervalSince1970: 1_736_933_400)
}

/// The users that can sign in, and the accounts of token subjects.
///
/// Folder `Accounts/`: users, and the tokens issued for them.
final class AccountStore: Sendable {
    private struct Entry {
        var account: Account
        let password: SecretFingerprint
    }

    private let entriesByID: Mutex<[String: Entry]>

    /// If two users have the same e-mail address, the later one applies.
    init(_ users: [MockUser]) {
        var entries: [String: Entry] = [:]
        for user in users {
            let id = Self.id(of: user.email)
            entries[id] = Entry(
                account: Account(id: id, email: user.email, name: user.name),
                password: SecretFingerprint(of: user.password))
        }
        entriesByID = Mutex(entries)
    }

    func authenticate(_ credentials: BasicCredentials) -> Account? {
        let presented = SecretFingerprint(of: credentials.password)
        return entriesByID.withLock { entries in
            guard let entry = entries[Self.id(of: credentials.email)], entry.password == presented else { return nil }
            return entry.account
        }
    }

    func account(withID id: String) -> Account? {
        entriesByID.withLock { $0[id]?.account }
    }

    /// Returns whether there is such a user.
    func rename(email: String, to name: String) -> Bool {
        entriesByID.withLock { entries in
            let id = Self.id(of: email)
            guard entries[id] != nil else { return false }
            entries[id]?.account.name = name
            return true
        }
    }

    /// Derived from the e-mail address, so ids stay the same after a restart of the mock.
    private static func id(of email: String) -> String {
        let digest = SHA256.hash(data: Array(email.lowercased().utf8))
        return "usr_" + Base64URL.encode(digest.prefix(12))
    }
}

/// The user-id and password of `Authorization: Basic` in UTF-8 (RFC 7617 §2, §2.1).
struct BasicCredentials: Redacted {
    let email: String
    let password: String
}

extension BasicCredentials {
    /// `nil` if the field is missing, repeated, of another scheme, not base 64, not UTF-8 or without a colon.
    ///
    /// The first colon separates: a user-id cannot contain one, a password can.
    init?(_ fields: HTTPHeaders) {
        guard let encoded = AuthorizationCredentials.read(from: fields, scheme: "basic"),
            let bytes = Data(base64Encoded: String(encoded)),
            let text = String(validating: bytes, as: UTF8.self),
            let colon = text.utf8.firstIndex(of: UInt8(ascii: ":"))
        else { return nil }
        email = String(text[..<colon])
        password = String(text[text.utf8.index(after: colon)...])
    }
}

/// The credentials after the scheme in the single `Authorization` field of a request (RFC 9110 §11.4).
enum AuthorizationCredentials {
    /// `nil` if there is no such field, more than one, or one of another scheme.
    ///
    /// Two fields are rejected rather than joined, to detect a proxy that adds a field instead of replacing it.
    static func read(from fields: HTTPHeaders, scheme: String) -> Substring? {
        let values = fields["Authorization"]
        guard values.count == 1, let value = values.first, let space = value.firstIndex(of: " "),
            value[..<space].lowercased() == scheme
        else { return nil }
        let credentials = value[space...].drop { $0 == " " }
        return credentials.isEmpty ? nil : credentials
    }
}
