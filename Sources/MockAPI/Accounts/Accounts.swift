import Crypto
import FoundationEssentials
import Synchronization

/// The account representation of `GET /user`.
struct Account: Encodable, Sendable {
    let id: String
    let email: String
    var name: String
    let isNewUser: Bool
    let createdAt: Date
}

/// The users that can sign in, and the accounts of token subjects.
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
                account: Account(
                    id: id, email: user.email, name: user.name, isNewUser: user.isNewUser, createdAt: user.createdAt),
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
