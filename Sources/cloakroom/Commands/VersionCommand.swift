import ArgumentParser
import CloakroomConfig
import CloakroomSessions
import Glibc

/// `cloakroom version`: what this binary is, for bug reports and inventories.
struct VersionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "version",
        abstract: "Show the version, the commit, the compiler and the system's libraries.",
        discussion: "The option --version prints the version alone.")

    @OptionGroup var output: OutputOptions

    func run() throws {
        let information = BuildInformation()
        try CommandOutput.print(output.json ? information.reportDocument : information.text)
    }
}

/// What is known about this binary and the libraries that it has loaded.
struct BuildInformation: Encodable {
    let version = Cloakroom.version
    /// See ``Cloakroom/commit``.
    let commit = Cloakroom.commit
    /// The version of the Swift compiler, major and minor.
    let swift = Self.swiftVersion
    /// `debug` or `release`.
    let build = Self.buildName
    /// Operating system and architecture, such as `linux-x86_64`.
    let platform = "linux-\(Self.architecture)"
    /// The version of SQLite; see ``SQLiteLibrary/version``.
    let sqlite = SQLiteLibrary.version
    /// The version of the C library.
    let glibc = Self.glibcVersion

    /// One line for each value.
    var text: String {
        """
        cloakroom \(version)
        commit    \(commit)
        swift     \(swift)
        build     \(build)
        platform  \(platform)
        sqlite    \(sqlite)
        glibc     \(glibc)

        """
    }

    private static var glibcVersion: String {
        var bytes = [UInt8](repeating: 0, count: 64)
        // The value is text such as `glibc 2.36`, with a NUL; the result is its length.
        let length = bytes.withUnsafeMutableBytes { buffer in
            confstr(
                Int32(_CS_GNU_LIBC_VERSION), buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count)
        }
        let text = String(decoding: bytes.prefix(min(max(length, 1), bytes.count) - 1), as: UTF8.self)
        return text.split(separator: " ").last.map(String.init) ?? "unknown"
    }

    /// The language has no constant for its version.
    private static var swiftVersion: String {
        #if compiler(>=6.5)
            "6.5 or later"
        #elseif compiler(>=6.4)
            "6.4"
        #elseif compiler(>=6.3)
            "6.3"
        #else
            "6.2"
        #endif
    }

    private static var buildName: String {
        #if DEBUG
            "debug"
        #else
            "release"
        #endif
    }

    private static var architecture: String {
        #if arch(x86_64)
            "x86_64"
        #elseif arch(arm64)
            "aarch64"
        #else
            "other"
        #endif
    }
}
