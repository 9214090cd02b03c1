/// What users sign in with.
public enum AccountNameKind: String, Sendable, Hashable, CaseIterable {
    /// An e-mail address. Its case and its Unicode normalization have no meaning.
    case email
    /// Any name of 1 to 254 bytes without control characters. Different bytes are different names: `Jo` is not `jo`.
    case text
}

/// Sign-in credentials. Held no longer than the sign-in call.
public struct Credentials: Sendable, Equatable, Redacted {
    /// The user name, unchanged.
    public let name: String
    /// The kind of the name.
    public let kind: AccountNameKind
    /// The password.
    public let password: Secret
    /// The account that the typed name identifies.
    public let account: AccountName

    /// Validates an e-mail address and a password.
    /// - Throws: ``CredentialsError`` which names the invalid one.
    public init(email: String, password: Secret) throws(CredentialsError) {
        try self.init(name: email, kind: .email, password: password)
    }

    /// Validates a user name and a password.
    /// - Throws: ``CredentialsError`` which names the invalid one.
    public init(name: String, kind: AccountNameKind, password: Secret) throws(CredentialsError) {
        switch kind {
        case .email: guard Self.looksLikeEmail(name) else { throw .name }
        case .text: guard Self.isName(name) else { throw .name }
        }
        guard !password.isEmpty else { throw .password }
        guard password.bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }) else { throw .password }
        self.name = name
        self.kind = kind
        self.password = password
        account = kind == .email ? AccountName(email: name) : AccountName(text: name)
    }

    /// Control characters and line separators could end a field or a line; all others are the upstream's concern.
    private static func isName(_ text: String) -> Bool {
        guard (1...254).contains(text.utf8.count) else { return false }
        return text.unicodeScalars.allSatisfy { scalar in
            switch scalar.properties.generalCategory {
            case .control, .lineSeparator, .paragraphSeparator: false
            default: true
            }
        }
    }

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
        // The other ASCII characters are visible, white space or controls; Unicode's tables cost more.
        if scalar.isASCII { return 0x21...0x7e ~= scalar.value }
        guard !scalar.properties.isWhitespace else { return false }
        switch scalar.properties.generalCategory {
        case .control, .format, .surrogate, .unassigned, .privateUse, .lineSeparator, .paragraphSeparator: return false
        default: return true
        }
    }
}

/// Which of the credentials is invalid.
public enum CredentialsError: Error, Sendable, Equatable {
    /// The user name is malformed.
    case name
    /// The password is empty or contains control characters.
    case password
}
