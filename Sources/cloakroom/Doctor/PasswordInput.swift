import ArgumentParser
import CloakroomCore
import Foundation
import Glibc

/// Reads a password from a file, from standard input, or from a terminal without echo. Never from the command line, which
/// other users of the machine can read.
enum PasswordInput {
    /// The maximum length in bytes.
    static let maxLength = 4_096

    /// - Parameter file: `-` for standard input; `nil` for standard input, or a prompt if that is a terminal.
    static func read(file: String?) throws -> Secret {
        if let file, file != "-" {
            let descriptor = open(file, O_RDONLY | O_CLOEXEC)
            defer { if descriptor >= 0 { close(descriptor) } }
            guard descriptor >= 0, let line = try firstLine(of: descriptor) else {
                throw ValidationError(
                    "--password-file: \(file) cannot be read, or is empty (write the password into its first line)")
            }
            return line
        }
        guard isatty(STDIN_FILENO) == 1 else { return try firstLine(of: STDIN_FILENO) ?? Secret("") }
        try FileHandle.standardError.write(contentsOf: Data("Password: ".utf8))
        let line = try withoutEcho { try firstLine(of: STDIN_FILENO) }
        try FileHandle.standardError.write(contentsOf: Data("\n".utf8))
        return line ?? Secret("")
    }

    /// - Returns: `nil` if there is nothing to read.
    /// - Throws: `ValidationError` if the line is too long.
    private static func firstLine(of descriptor: Int32) throws -> Secret? {
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: maxLength)
        while bytes.count <= maxLength, !bytes.contains(where: isEnd) {
            let count = Glibc.read(descriptor, &part, part.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            bytes += part[..<count]
        }
        guard !bytes.isEmpty else { return nil }
        let line = bytes.prefix { !isEnd($0) }
        guard line.count <= maxLength else {
            throw ValidationError(
                "the password is longer than \(maxLength) bytes (write it into the first line of --password-file or of"
                    + " standard input)")
        }
        return Secret(bytes: Array(line))
    }

    private static func isEnd(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r") }

    // MARK: - Echo

    private static let endingSignals = [SIGINT, SIGTERM, SIGQUIT]

    private static func withoutEcho<R>(_ body: () throws -> R) rethrows -> R {
        var saved = termios()
        guard tcgetattr(STDIN_FILENO, &saved) == 0 else { return try body() }
        // Ctrl-C would leave a terminal that does not show what is typed.
        let previous = endingSignals.map { ($0, signal($0, restoreEchoAndEnd)) }
        var silent = saved
        silent.c_lflag &= ~tcflag_t(ECHO)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent)
        defer {
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved)
            for (number, handler) in previous { signal(number, handler) }
        }
        return try body()
    }

    /// Calls only what is permitted in a signal handler (POSIX.1-2017 XSH §2.4.3).
    private static let restoreEchoAndEnd: @convention(c) (Int32) -> Void = { number in
        var current = termios()
        if tcgetattr(STDIN_FILENO, &current) == 0 {
            current.c_lflag |= tcflag_t(ECHO)
            tcsetattr(STDIN_FILENO, TCSANOW, &current)
        }
        signal(number, SIG_DFL)
        raise(number)
    }
}
