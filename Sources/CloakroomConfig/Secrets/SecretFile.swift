import FoundationEssentials

/// A file that holds one secret, with or without a line break at its end, or several, one a line.
enum SecretFile {
    /// Larger than any secret.
    private static let maximumBytes = 65_536

    /// Reads the secret.
    /// - Throws: ``Mistake`` if the file is missing, unreadable, empty, too large or not UTF-8.
    static func read(_ path: String) throws(ConfigValueError) -> String {
        var text = try contents(path)
        if text.hasSuffix("\r\n") || text.hasSuffix("\n") { text.removeLast() }
        guard !text.isEmpty else {
            throw ConfigValueError("\(DiagnosticText.quoted(path)) is empty", "put the secret into it")
        }
        return text
    }

    /// Reads several secrets, one a line. Blank lines count for nothing.
    /// - Throws: ``Mistake`` as ``read(_:)`` does.
    static func readLines(_ path: String) throws(ConfigValueError) -> [String] {
        let lines = try contents(path).split { $0 == "\n" || $0 == "\r\n" }
            .filter { !$0.allSatisfy(\.isWhitespace) }
        guard !lines.isEmpty else {
            throw ConfigValueError(
                "\(DiagnosticText.quoted(path)) is empty", "put the secrets into it, one a line, the newest first")
        }
        return lines.map(String.init)
    }

    /// What to say where there is no such file. The secret itself is easily pasted where its file's path belongs, so only
    /// what begins like a path is repeated: with a folder that is there. A slash alone tells nothing, for base64 has it.
    /// - Parameters:
    ///   - text: The path as it was written.
    ///   - path: The path as it is opened.
    static func fileNotFound(_ text: String, at path: String) -> ConfigValueError {
        guard text.dropFirst().contains("/"), isNamedDirectory(ConfigRelativePath.directory(of: path)) else {
            return ConfigValueError(
                "there is no such file",
                "create it, or correct the path; a secret itself stands in the key without File at its end")
        }
        return ConfigValueError("there is no file \(DiagnosticText.quoted(path))", "create it, or correct the path")
    }

    /// How a path is shown: not at all if there is nothing, for the same reason.
    static func shown(_ text: String, in directory: String) -> String {
        FileManager.default.fileExists(atPath: ConfigRelativePath.resolve(text, in: directory)) ? text : "<redacted>"
    }

    private static func isNamedDirectory(_ path: String) -> Bool {
        guard path.contains(where: { $0 != "/" }) else { return false }
        var isDirectory = false
        return FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory) && isDirectory
    }

    private static func contents(_ path: String) throws(ConfigValueError) -> String {
        let bytes = try ConfigRelativePath.contents(of: path)
        guard bytes.count <= maximumBytes else {
            throw ConfigValueError(
                "\(DiagnosticText.quoted(path)) is too large for a secret", "name a file that holds the secret only")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw ConfigValueError(
                "\(DiagnosticText.quoted(path)) is not text in UTF-8", "name a file that holds the secret only")
        }
        return text
    }
}

/// Files that a configuration names.
enum ConfigRelativePath {
    /// The path as it is opened: relative paths start in the folder of the configuration file.
    static func resolve(_ path: String, in directory: String) -> String {
        path.hasPrefix("/") || directory.isEmpty || directory == "." ? path : directory + "/" + path
    }

    /// The folder that a file lies in; empty for the working directory.
    static func directory(of file: String) -> String {
        guard let slash = file.lastIndex(of: "/") else { return "" }
        return slash == file.startIndex ? "/" : String(file[..<slash])
    }

    /// Reads a whole file.
    static func contents(of path: String) throws(ConfigValueError) -> [UInt8] {
        var isDirectory = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory) else {
            throw ConfigValueError("there is no file \(DiagnosticText.quoted(path))", "create it, or correct the path")
        }
        guard !isDirectory else {
            throw ConfigValueError("\(DiagnosticText.quoted(path)) is a folder", "name a file")
        }
        guard let data = FileManager.default.contents(atPath: path) else {
            throw ConfigValueError(
                "\(DiagnosticText.quoted(path)) cannot be read", "give the gateway's user the right to read it")
        }
        return Array(data)
    }
}
