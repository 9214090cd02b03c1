/// A file with certificates or a key in PEM (RFC 7468).
enum PEMFile {
    /// What a file must hold.
    enum Content {
        case certificate, privateKey
    }

    /// A format for the path of a PEM file; relative paths start in the given folder.
    /// - Parameter isRead: Whether the file is opened to see what it holds.
    static func path(of content: Content, in directory: String, isRead: Bool) -> ValueFormat<String> {
        ValueFormat(
            "path of a PEM file",
            parse: { text throws(ConfigValueError) in
                // A key in the place of its file's path is not repeated.
                guard !text.contains("-----BEGIN") else {
                    throw ConfigValueError("holds PEM itself", "name a file that holds it")
                }
                let path = ConfigRelativePath.resolve(try ValueFormat<String>.text.parse(text), in: directory)
                if isRead { try check(path, holds: content) }
                return path
            }, render: { $0 })
    }

    private static func check(_ path: String, holds content: Content) throws(ConfigValueError) {
        let text = String(decoding: try ConfigRelativePath.contents(of: path), as: UTF8.self)
        let begins = text.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("-----BEGIN ") }
        switch content {
        case .certificate:
            guard begins.contains(where: { $0.hasPrefix("-----BEGIN CERTIFICATE-----") }) else {
                throw ConfigValueError(
                    "\(DiagnosticText.quoted(path)) holds no certificate",
                    "name a PEM file with \"-----BEGIN CERTIFICATE-----\"")
            }
        case .privateKey:
            guard begins.contains(where: { $0.hasSuffix("PRIVATE KEY-----") }) else {
                throw ConfigValueError(
                    "\(DiagnosticText.quoted(path)) holds no private key",
                    "name a PEM file with \"-----BEGIN PRIVATE KEY-----\"")
            }
            guard !begins.contains(where: { $0.contains("ENCRYPTED") }) else {
                throw ConfigValueError(
                    "the key in \(DiagnosticText.quoted(path)) is encrypted", "store it without a passphrase")
            }
        }
    }
}

extension ConfigScope {
    /// A format for the path of a PEM file, which is opened unless the check is offline.
    func pemFile(_ content: PEMFile.Content) -> ValueFormat<String> {
        PEMFile.path(of: content, in: reading.directory, isRead: !reading.sources.isOffline)
    }
}
