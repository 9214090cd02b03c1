import FoundationEssentials

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// File permission checks.
enum FileAccess {
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

    private static func mode(of path: String) -> mode_t? {
        var information = stat()
        return stat(path, &information) == 0 ? information.st_mode : nil
    }
}

extension ConfigScope {
    /// Warns if every user of the machine can read a file that contains a secret or a key.
    /// - Parameter name: The key that the warning refers to.
    func warnIfReadableByOthers(_ file: String, at name: String) {
        guard !reading.sources.isOffline, FileAccess.isReadableByOthers(file) else { return }
        warn(
            ConfigValueError(
                "\(DiagnosticText.quoted(file)) can be read by every user of this machine",
                "remove the permissions of others: chmod o-rwx"), at: name)
    }
}
