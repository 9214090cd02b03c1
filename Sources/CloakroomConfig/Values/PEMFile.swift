/// The format of a path to a PEM file with certificates or a key (RFC 7468).
enum PEMFile {
    /// The expected content of a file.
    enum Content {
        case certificate, privateKey
    }

    /// A format for the path of a PEM file; relative paths start in the given folder.
    /// - Parameter isRead: Whether the file is opened to check its content.
    static func path(of content: Content, in directory: String, isRead: Bool) -> ValueFormat<String> {
        ValueFormat(
            "path of a PEM file",
            parse: { text throws(ConfigValueError) in
                // A key given in place of the path is not printed.
                guard !text.contains("-----BEGIN") else {
                    throw ConfigValueError("must be a path, not the PEM text", "name a file that holds it")
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
                    "must be a file with a PEM certificate: \(DiagnosticText.quoted(path))",
                    "name a PEM file with \"-----BEGIN CERTIFICATE-----\"")
            }
        case .privateKey:
            guard begins.contains(where: { $0.hasSuffix("PRIVATE KEY-----") }) else {
                throw ConfigValueError(
                    "must be a file with a PEM private key: \(DiagnosticText.quoted(path))",
                    "name a PEM file with \"-----BEGIN PRIVATE KEY-----\"")
            }
            guard !begins.contains(where: { $0.contains("ENCRYPTED") }) else {
                throw ConfigValueError(
                    "encrypted keys are not supported: \(DiagnosticText.quoted(path))", "store it without a passphrase")
            }
        }
    }
}

extension ConfigScope {
    /// A format for the path of a PEM file. The file is opened unless the check is offline.
    func pemFile(_ content: PEMFile.Content) -> ValueFormat<String> {
        PEMFile.path(of: content, in: reading.directory, isRead: !reading.sources.isOffline)
    }
}
