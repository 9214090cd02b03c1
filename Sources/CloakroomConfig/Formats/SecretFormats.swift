import CloakroomCore

/// Formats of secrets. Error messages do not contain the secret.
extension ValueFormat where Value == Secret {
    /// A secret field value: visible ASCII.
    static let fieldValue = ValueFormat("visible ASCII") { text throws(ConfigValueError) in
        try require(!text.isEmpty, "must not be empty", "write the secret, or name a file that holds it")
        try require(
            text.utf8.allSatisfy({ $0 == 0x20 || (0x21...0x7e).contains($0) }) && text.utf8.first != 0x20
                && text.utf8.last != 0x20, "must be visible ASCII to fit in a header field",
            "use visible ASCII; a file may end with one line break")
        return Secret(text)
    }

    /// The admin token: at least 16 bytes of visible ASCII.
    static let operatorToken = ValueFormat("visible ASCII, 16 bytes or more") { text throws(ConfigValueError) in
        try require(
            text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }), "must be visible ASCII to fit in a bearer token",
            "use visible ASCII without blanks; a file may end with one line break")
        try require(text.utf8.count >= 16, "must be at least 16 bytes long", "make one with openssl rand -hex 32")
        return Secret(text)
    }

    /// A secret of the gateway: at least 32 bytes.
    static let gatewaySecret = ValueFormat("text, 32 bytes or more") { text throws(ConfigValueError) in
        // Leading and trailing blanks can be lost in files and variables, which would give replicas different secrets.
        guard let first = text.first, let last = text.last, !first.isWhitespace, !last.isWhitespace,
            text.escaped == text
        else {
            throw ConfigValueError(
                "must be text without control characters and without blanks at its ends", gatewaySecretExample)
        }
        try require(text.utf8.count >= 32, "must be at least 32 bytes long", gatewaySecretExample)
        return Secret(text)
    }

    /// The command that generates a secret.
    static let gatewaySecretExample = "make one with openssl rand -base64 48"

    /// A password for a server: any text on one line.
    static let password = ValueFormat("text") { text throws(ConfigValueError) in
        try require(
            !text.isEmpty && text.escaped == text, "must be text without control characters",
            "write plain text; a file may end with one line break")
        return Secret(text)
    }
}

/// The format of a path to a PEM file with certificates or a key (RFC 7468).
enum PEMFile {
    /// The expected content of a file.
    enum Content {
        case certificate, privateKey
    }

    /// A format for the path of a PEM file; relative paths start in the given folder.
    /// - Parameter isRead: Whether the file is opened to check its content.
    static func path(of content: Content, in directory: String, isRead: Bool) -> ValueFormat<String> {
        ValueFormat("path of a PEM file") { text throws(ConfigValueError) in
            // A key given in place of the path is not printed.
            try require(!text.contains("-----BEGIN"), "must be a path, not the PEM text", "name a file that holds it")
            let path = ConfigRelativePath.resolve(try ValueFormat<String>.text.parse(text), in: directory)
            if isRead { try check(path, holds: content) }
            return path
        }
    }

    private static func check(_ path: String, holds content: Content) throws(ConfigValueError) {
        let text = String(decoding: try ConfigRelativePath.contents(of: path), as: UTF8.self)
        let begins = text.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("-----BEGIN ") }
        switch content {
        case .certificate:
            try require(
                begins.contains(where: { $0.hasPrefix("-----BEGIN CERTIFICATE-----") }),
                "must be a file with a PEM certificate: \(path.quoted)",
                "name a PEM file with \"-----BEGIN CERTIFICATE-----\"")
        case .privateKey:
            try require(
                begins.contains(where: { $0.hasSuffix("PRIVATE KEY-----") }),
                "must be a file with a PEM private key: \(path.quoted)",
                "name a PEM file with \"-----BEGIN PRIVATE KEY-----\"")
            try require(
                !begins.contains(where: { $0.contains("ENCRYPTED") }),
                "encrypted keys are not supported: \(path.quoted)", "store it without a passphrase")
        }
    }
}

extension ConfigScope {
    /// A format for the path of a PEM file. The file is opened unless the check is offline.
    func pemFile(_ content: PEMFile.Content) -> ValueFormat<String> {
        PEMFile.path(of: content, in: reading.directory, isRead: !reading.sources.isOffline)
    }
}
