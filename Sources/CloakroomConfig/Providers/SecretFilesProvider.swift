import CloakroomCore
import Configuration
import FoundationEssentials

/// Provides secret values from the files named by their `…File` keys.
///
/// Symbolic links are followed because mounted secrets are links.
struct SecretFilesProvider: StaticConfigProvider, Unprintable {
    let providerName = "secret files"
    /// Reads the `…File` keys: all layers except secret files.
    let reader: ConfigReader
    /// The base of relative paths.
    let directory: String
    /// Whether no file is opened and every secret file counts as valid; see ``ConfigSources/isOffline``.
    var isOffline = false

    /// The substitute for a secret whose file is not opened. It is valid for every key.
    private static let offlineSecret = "not-read-because-the-check-is-offline"

    static func fileKey(of name: String) -> String { name + "File" }

    private static let secrets: Set<[String]> = [
        ["admin", "token"], ["session", "secrets"], ["session", "valkey", "password"],
        ["session", "valkey", "sentinelPassword"], ["tracing", "otlp", "headers"],
    ]

    /// Whether a key is a secret that can be given in a file.
    static func isSecret(_ path: [String]) -> Bool {
        path.suffix(2) == ["apiToken", "value"] || path.suffix(2) == ["client", "secret"] || secrets.contains(path)
    }

    /// Whether an environment variable contains a secret.
    static func isSecret(variable name: String) -> Bool {
        ["_VALUE", "_TOKEN", "_SECRET", "_SECRETS", "_PASSWORD", "_HEADERS"].contains(where: name.hasSuffix)
    }

    func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
        guard Self.isSecret(key.components), let name = key.components.last else {
            return LookupResult(encodedKey: key.description, value: nil)
        }
        let twin = ConfigKey(key.components.dropLast() + [Self.fileKey(of: name)])
        guard let path = reader.string(forKey: twin) else {
            return LookupResult(encodedKey: key.description, value: nil)
        }
        let file = ConfigRelativePath.resolve(path, in: directory)
        guard !isOffline else {
            let secret = name == "headers" ? "x-offline=\(Self.offlineSecret)" : Self.offlineSecret
            return LookupResult(
                encodedKey: file,
                value: ConfigValue(type == .stringArray ? .stringArray([secret]) : .string(secret), isSecret: true))
        }
        guard FileManager.default.fileExists(atPath: file) else { throw SecretFile.fileNotFound(path, at: file) }
        let content: ConfigContent =
            type == .stringArray
            ? .stringArray(try SecretFile.readLines(file)) : .string(try SecretFile.read(file))
        return LookupResult(encodedKey: file, value: ConfigValue(content, isSecret: true))
    }
}

/// A file with one secret, optionally followed by a line break, or with several, one per line.
enum SecretFile {
    /// The maximum size in bytes.
    private static let maximumBytes = 65_536

    /// Reads the secret.
    /// - Throws: ``ConfigValueError`` if the file is missing, unreadable, empty, too large or not UTF-8.
    static func read(_ path: String) throws(ConfigValueError) -> String {
        var text = try contents(path)
        if text.hasSuffix("\r\n") || text.hasSuffix("\n") { text.removeLast() }
        try require(!text.isEmpty, "must be a file with content: \(path.quoted)", "put the secret into it")
        return text
    }

    /// Reads several secrets, one per line. Blank lines are ignored.
    /// - Throws: ``ConfigValueError`` under the conditions of ``read(_:)``.
    static func readLines(_ path: String) throws(ConfigValueError) -> [String] {
        let lines = try contents(path).split { $0 == "\n" || $0 == "\r\n" }
            .filter { !$0.allSatisfy(\.isWhitespace) }
        try require(
            !lines.isEmpty, "must be a file with content: \(path.quoted)",
            "put the secrets into it, one per line, the newest first")
        return lines.map(String.init)
    }

    /// The error for a missing file. Users may paste the secret itself in place of its path. Therefore the text is
    /// printed only if it is a path in an existing folder other than `/`, because base64 text may contain slashes.
    /// - Parameters:
    ///   - text: The path as configured.
    ///   - path: The resolved path.
    static func fileNotFound(_ text: String, at path: String) -> ConfigValueError {
        guard text.dropFirst().contains("/"), isNamedDirectory(ConfigRelativePath.directory(of: path)) else {
            return ConfigValueError(
                "must be an existing file",
                "create it, or correct the path; a secret itself belongs in the key without File at its end")
        }
        return ConfigValueError("must be an existing file: \(path.quoted)", "create it, or correct the path")
    }

    /// The path for `print-config`; redacted if no such file exists, because it may be a secret.
    static func shown(_ text: String, in directory: String) -> String {
        FileManager.default.fileExists(atPath: ConfigRelativePath.resolve(text, in: directory)) ? text : "<redacted>"
    }

    private static func isNamedDirectory(_ path: String) -> Bool {
        guard path.contains(where: { $0 != "/" }) else { return false }
        var isDirectory = false
        return FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory) && isDirectory
    }

    private static func contents(_ path: String) throws(ConfigValueError) -> String {
        let bytes = try ConfigRelativePath.contents(
            of: path, limit: maximumBytes, remedy: "name a file that holds the secret only")
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw ConfigValueError("must be a file in UTF-8: \(path.quoted)", "name a file that holds the secret only")
        }
        return text
    }
}

/// Files referenced by a configuration.
enum ConfigRelativePath {
    /// The resolved path: relative paths start at the folder of the configuration file.
    static func resolve(_ path: String, in directory: String) -> String {
        path.hasPrefix("/") || directory.isEmpty || directory == "." ? path : directory + "/" + path
    }

    /// The folder of a file; empty for the working directory.
    static func directory(of file: String) -> String {
        guard let slash = file.lastIndex(of: "/") else { return "" }
        return slash == file.startIndex ? "/" : String(file[..<slash])
    }

    /// Reads a whole file.
    /// - Parameters:
    ///   - limit: In bytes.
    ///   - remedy: What to do with a larger file.
    static func contents(
        of path: String, limit: Int = RegularFile.limit, remedy: String = "name a smaller file"
    ) throws(ConfigValueError) -> [UInt8] {
        var isDirectory = false
        try require(
            FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory),
            "must be an existing file: \(path.quoted)", "create it, or correct the path")
        try require(!isDirectory, "must be a file, not a folder: \(path.quoted)", "name a file")
        guard let contents = RegularFile.contents(of: path, limit: limit) else {
            throw ConfigValueError(
                "must be a readable file: \(path.quoted)",
                "grant read permission to the gateway's user; a pipe or device is not read")
        }
        try require(contents.count <= limit, "must be a file of at most \(limit / 1_024) KiB: \(path.quoted)", remedy)
        return contents
    }
}

#if canImport(Glibc)
    package import Glibc
#elseif canImport(Musl)
    package import Musl
#endif

/// File permission checks.
package enum FileAccess {
    /// Whether every user of the machine can read a file: the file is world-readable and all its parent folders are
    /// world-searchable. Symbolic links are resolved.
    static func isReadableByOthers(_ path: String) -> Bool {
        guard let mode = mode(of: path), mode & mode_t(S_IROTH) != 0 else { return false }
        var directory = URL(filePath: path).resolvingSymlinksInPath().deletingLastPathComponent()
        while true {
            guard let mode = Self.mode(of: directory.path), mode & mode_t(S_IXOTH) != 0 else { return false }
            guard directory.path != "/", !directory.path.isEmpty else { return true }
            directory = directory.deletingLastPathComponent()
        }
    }

    /// Whether a user other than root and `user` can change a file or put another one in its place. Besides the file, all
    /// folders above it count, and those of its target if it is a symbolic link. In a folder with the sticky bit only the
    /// owner of a file can replace it; that does not protect what is in a folder that is itself checked.
    /// - Parameter group: A group that may write.
    /// - Returns: `true` also if that cannot be determined.
    package static func isWritable(_ path: String, byOthersThan user: uid_t, _ group: gid_t) -> Bool {
        let folder = ConfigRelativePath.directory(of: path)
        let name = path[(path.lastIndex(of: "/").map(path.index(after:)) ?? path.startIndex)...]
        return [resolved(folder.isEmpty ? "." : folder).map { "\($0 == "/" ? "" : $0)/\(name)" }, resolved(path)]
            .contains { $0.map { isAnyWritable(upFrom: $0, user, group) } ?? true }
    }

    /// Whether users other than root and the owner of a file can change or replace it. Its group may write.
    static func isWritableByOthers(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && isWritable(path, byOthersThan: status.st_uid, status.st_gid)
    }

    private static func isAnyWritable(upFrom path: String, _ user: uid_t, _ group: gid_t) -> Bool {
        var current = path
        var status = stat()
        while true {
            guard lstat(current, &status) == 0 else { return true }
            let mode = status.st_mode
            let isProtected = mode & S_IFMT == S_IFLNK || current != path && mode & mode_t(S_ISVTX) != 0
            let isShared =
                mode & mode_t(S_IWOTH) != 0
                || mode & mode_t(S_IWGRP) != 0 && status.st_gid != 0 && status.st_gid != group
            let isForeign = status.st_uid != 0 && status.st_uid != user
            // Volumes of a container are often writable by all, and mounted read-only. That does not concern the owner,
            // who may have another mount.
            if isForeign || isShared && !isProtected && !isOnReadOnlyMount(current) { return true }
            guard current != "/" else { return false }
            current = ConfigRelativePath.directory(of: current)
        }
    }

    private static func isOnReadOnlyMount(_ path: String) -> Bool {
        var system = statvfs()
        return statvfs(path, &system) == 0 && system.f_flag & UInt(ST_RDONLY) != 0
    }

    private static func resolved(_ path: String) -> String? {
        guard let text = realpath(path, nil) else { return nil }
        defer { free(text) }
        return String(cString: text)
    }

    private static func mode(of path: String) -> mode_t? {
        var information = stat()
        return stat(path, &information) == 0 ? information.st_mode : nil
    }
}

extension ConfigScope {
    /// Warns if every user of the machine can read a file that contains a secret or a key, or if others can write it.
    /// - Parameter name: The key that the warning refers to.
    func warnAboutAccess(to file: String, at name: String) {
        warnIfWritableByOthers(file, at: name)
        guard !reading.sources.isOffline, FileAccess.isReadableByOthers(file) else { return }
        warn(
            "\(file.quoted) can be read by every user of this machine",
            "remove the permissions of others: chmod o-rwx", at: name)
    }

    /// Warns if users other than its owner can change or replace a file or folder.
    func warnIfWritableByOthers(_ file: String, at name: String) {
        guard !reading.sources.isOffline, FileAccess.isWritableByOthers(file) else { return }
        warn(.writableByOthers(file), at: name)
    }
}

extension ConfigValueError {
    static func writableByOthers(_ file: String) -> ConfigValueError {
        ConfigValueError(
            "\(file.quoted) can be changed or replaced by other users of this machine",
            "check the owner and the write permissions of it and of the folders above it")
    }
}
