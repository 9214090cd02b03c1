/// Sign-in credentials. Held no longer than the sign-in call.
public struct Credentials: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    /// The e-mail address, unchanged.
    public let email: String
    /// The password.
    public let password: Secret

    /// Validates an e-mail address and a password.
    /// - Throws: ``CredentialsError`` which names the invalid one.
    public init(email: String, password: Secret) throws(CredentialsError) {
        guard Self.looksLikeEmail(email) else { throw .email }
        guard !password.isEmpty else { throw .password }
        guard password.bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }) else { throw .password }
        self.email = email
        self.password = password
    }

    /// Always `<redacted>`.
    public var description: String { "<redacted>" }
    /// Has no children.
    public var customMirror: Mirror { Mirror(self, children: []) }

    /// One `@` with a non-empty local part and a dotted domain, at most 254 bytes (RFC 5321 §4.5.3.1.3), and no
    /// character with a special meaning in transit: controls, spaces, quotes, separators. A colon would end the name in
    /// Basic credentials (RFC 7617 §2).
    ///
    /// Checked scalar by scalar: an `@` or a dot with a combining mark is a different `Character`, but an upstream that
    /// processes bytes would still find the `@`.
    private static func looksLikeEmail(_ text: String) -> Bool {
        guard text.utf8.count <= 254 else { return false }
        let parts = text.utf8.split(separator: UInt8(ascii: "@"), omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty, parts[0].count <= 64 else { return false }
        guard text.unicodeScalars.allSatisfy(mayStandInEmail) else { return false }
        let hyphen = UInt8(ascii: "-")
        let labels = parts[1].split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return labels.count >= 2 && labels.allSatisfy { !$0.isEmpty && $0.first != hyphen && $0.last != hyphen }
    }

    private static func mayStandInEmail(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "\"", "(", ")", ",", ":", ";", "<", ">", "[", "]", "\\": return false
        default: break
        }
        guard !scalar.properties.isWhitespace else { return false }
        switch scalar.properties.generalCategory {
        case .control, .format, .surrogate, .unassigned, .privateUse, .lineSeparator, .paragraphSeparator: return false
        default: return true
        }
    }
}

/// Which of the credentials is invalid.
public enum CredentialsError: Error, Sendable, Equatable {
    /// The e-mail address is malformed.
    case email
    /// The password is empty or contains control characters.
    case password
}
