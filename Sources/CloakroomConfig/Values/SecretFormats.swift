import CloakroomCore

/// Formats of secrets. Error messages do not contain the secret.
extension ValueFormat where Value == Secret {
    /// A secret field value: visible ASCII.
    static let fieldValue = ValueFormat("visible ASCII") { text throws(ConfigValueError) in
        guard !text.isEmpty else {
            throw ConfigValueError("must not be empty", "write the secret, or name a file that holds it")
        }
        guard text.utf8.allSatisfy({ $0 == 0x20 || (0x21...0x7e).contains($0) }), text.utf8.first != 0x20,
            text.utf8.last != 0x20
        else {
            throw ConfigValueError(
                "must be visible ASCII to fit in a header field",
                "use visible ASCII; a file may end with one line break")
        }
        return Secret(text)
    }

    /// The admin token: at least 16 bytes of visible ASCII.
    static let operatorToken = ValueFormat("visible ASCII, 16 bytes or more") { text throws(ConfigValueError) in
        guard text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw ConfigValueError(
                "must be visible ASCII to fit in a bearer token",
                "use visible ASCII without blanks; a file may end with one line break")
        }
        guard text.utf8.count >= 16 else {
            throw ConfigValueError("must be at least 16 bytes long", "make one with openssl rand -hex 32")
        }
        return Secret(text)
    }

    /// A secret of the gateway: at least 32 bytes.
    static let gatewaySecret = ValueFormat("text, 32 bytes or more") { text throws(ConfigValueError) in
        // Leading and trailing blanks can be lost in files and variables, which would give replicas different secrets.
        guard let first = text.first, let last = text.last, !first.isWhitespace, !last.isWhitespace,
            DiagnosticText.escaped(text) == text
        else {
            throw ConfigValueError(
                "must be text without control characters and without blanks at its ends", gatewaySecretExample)
        }
        guard text.utf8.count >= 32 else {
            throw ConfigValueError("must be at least 32 bytes long", gatewaySecretExample)
        }
        return Secret(text)
    }

    /// The command that generates a secret.
    static let gatewaySecretExample = "make one with openssl rand -base64 48"

    /// A password for a server: any text on one line.
    static let password = ValueFormat("text") { text throws(ConfigValueError) in
        guard !text.isEmpty, DiagnosticText.escaped(text) == text else {
            throw ConfigValueError(
                "must be text without control characters", "write plain text; a file may end with one line break")
        }
        return Secret(text)
    }
}
