import CloakroomCore

/// What is wrong with a secret is told without repeating it.
extension ValueFormat where Value == Secret {
    /// The value of a field that must not be seen: visible ASCII.
    static let fieldValue = ValueFormat("visible ASCII") { text throws(ConfigValueError) in
        guard !text.isEmpty else {
            throw ConfigValueError("is empty", "write the secret, or name a file that holds it")
        }
        guard text.utf8.allSatisfy({ $0 == 0x20 || (0x21...0x7e).contains($0) }), text.utf8.first != 0x20,
            text.utf8.last != 0x20
        else {
            throw ConfigValueError(
                "holds characters that cannot stand in a header field",
                "use visible ASCII; a file may end with one line break")
        }
        return Secret(text)
    }

    /// What an operator shows: 16 bytes of visible ASCII or more.
    static let operatorToken = ValueFormat("visible ASCII, 16 bytes or more") { text throws(ConfigValueError) in
        guard text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw ConfigValueError(
                "holds characters that cannot stand in a bearer token",
                "use visible ASCII without blanks; a file may end with one line break")
        }
        guard text.utf8.count >= 16 else {
            throw ConfigValueError("is shorter than 16 bytes", "make one with openssl rand -hex 32")
        }
        return Secret(text)
    }

    /// A secret of the gateway's own: 32 bytes or more.
    static let gatewaySecret = ValueFormat("text, 32 bytes or more") { text throws(ConfigValueError) in
        // Blanks at the ends get lost on the way through files and variables, and then replicas differ.
        guard let first = text.first, let last = text.last, !first.isWhitespace, !last.isWhitespace,
            DiagnosticText.escaped(text) == text
        else {
            throw ConfigValueError("is empty, or holds control characters or blanks at its ends", gatewaySecretExample)
        }
        guard text.utf8.count >= 32 else { throw ConfigValueError("is shorter than 32 bytes", gatewaySecretExample) }
        return Secret(text)
    }

    /// How to come by a secret.
    static let gatewaySecretExample = "make one with openssl rand -base64 48"

    /// A password for a server: any text on one line.
    static let password = ValueFormat("text") { text throws(ConfigValueError) in
        guard !text.isEmpty, DiagnosticText.escaped(text) == text else {
            throw ConfigValueError(
                "is empty or holds control characters", "write plain text; a file may end with one line break")
        }
        return Secret(text)
    }
}
