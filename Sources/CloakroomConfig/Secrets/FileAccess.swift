import FoundationEssentials

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// What the permissions of a file allow.
enum FileAccess {
    /// Whether every user of the machine can read a file: its permissions say so, and those of all folders on the way to
    /// it let others pass. Symbolic links are followed to their end.
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
    /// Warns where every user of the machine can read a file that holds a secret or a key.
    /// - Parameter name: The key of the value, whose place the warning gets.
    func warnIfReadableByOthers(_ file: String, at name: String) {
        guard !reading.sources.isOffline, FileAccess.isReadableByOthers(file) else { return }
        warn(
            ConfigValueError(
                "\(DiagnosticText.quoted(file)) can be read by every user of this machine",
                "take the permission from others: chmod o-rwx"), at: name)
    }
}
