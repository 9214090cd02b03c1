import ArgumentParser
import CloakroomCore
import Foundation

/// Reads a password from a file, from standard input, or from a terminal without echo. Never from the command line, which
/// other users of the machine can read.
enum PasswordInput {
    private static let maxLength = 4_096

    /// - Parameter file: `-` for standard input; `nil` for standard input, or a prompt if that is a terminal.
    static func read(file: String?) throws -> Secret {
        if let file, file != "-" {
            guard let handle = FileHandle(forReadingAtPath: file), let data = try handle.read(upToCount: maxLength)
            else {
                throw ValidationError("--password-file: \(file) cannot be read, or is empty")
            }
            return secret(String(decoding: data, as: UTF8.self))
        }
        guard isatty(STDIN_FILENO) == 1 else { return secret(readLine() ?? "") }
        try FileHandle.standardError.write(contentsOf: Data("Password: ".utf8))
        let line = withoutEcho { readLine() }
        try FileHandle.standardError.write(contentsOf: Data("\n".utf8))
        return secret(line ?? "")
    }

    /// The first line.
    private static func secret(_ text: String) -> Secret {
        Secret(String(text.prefix { !$0.isNewline }))
    }

    private static func withoutEcho<R>(_ body: () -> R) -> R {
        var saved = termios()
        guard tcgetattr(STDIN_FILENO, &saved) == 0 else { return body() }
        var silent = saved
        silent.c_lflag &= ~tcflag_t(ECHO)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent)
        defer { tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved) }
        return body()
    }
}
