import ArgumentParser
import CloakroomCore
import Foundation
import Glibc
import Synchronization

/// Reads a password from a file, from standard input, or from a terminal without echo. Never from the command line, which
/// other users of the machine can read.
enum PasswordInput {
    /// The maximum length in bytes.
    static let maxLength = 4_096

    /// A user's name with the password that ``read(file:)`` reads.
    /// - Parameter option: The option of the name.
    /// - Throws: `ValidationError` if one of them cannot be used.
    static func credentials(
        user: String, option: String, _ kind: AccountNameKind, file: String?
    ) throws -> Credentials {
        let password = try read(file: file)
        do throws(CredentialsError) {
            return try Credentials(name: user, kind: kind, password: password)
        } catch {
            switch error {
            case .password:
                throw ValidationError(
                    "the password is empty, or contains control characters (write it into the first line of"
                        + " --password-file or of standard input)")
            case .name:
                let key = option == "--user" ? "accounts.name.kind: text" : "--text-names"
                throw ValidationError(
                    "\(option) must be a name as accounts.name.kind requires: \(kind.rawValue)"
                        + " (write \(key) for names that are no e-mail addresses)")
            }
        }
    }

    /// - Parameter file: `-` for standard input; `nil` for standard input, or a prompt if that is a terminal.
    static func read(file: String?) throws -> Secret {
        if let file, file != "-" {
            let descriptor = open(file, O_RDONLY | O_CLOEXEC)
            defer { if descriptor >= 0 { close(descriptor) } }
            guard descriptor >= 0, let line = try firstLine(of: descriptor) else {
                throw ValidationError(
                    "--password-file: the file cannot be read, or is empty (write the password into its first line)")
            }
            return line
        }
        guard let prompt = PasswordPrompt() else { return try firstLine(of: STDIN_FILENO) ?? Secret("") }
        defer {
            prompt.finish()
            // The line break that was typed is not shown either.
            try? FileHandle.standardError.write(contentsOf: Data("\n".utf8))
        }
        return try firstLine(of: STDIN_FILENO) ?? Secret("")
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
}

/// Asks for a password on the terminal of standard input, and does not show what is typed. A signal that ends or stops the
/// process turns the echo on again; a stopped process asks again when it is continued in the foreground.
private struct PasswordPrompt {
    private typealias SignalHandler = @convention(c) (Int32) -> Void

    private var attributes = termios()
    private var signalMask = sigset_t()
    private let ending: [(number: Int32, previous: SignalHandler?)]
    private let pausing: [(number: Int32, previous: SignalHandler?)]
    /// The thread that asks.
    private static let thread = Atomic<UInt>(0)

    /// Asks.
    /// - Returns: `nil` if standard input is no terminal.
    init?() {
        guard tcgetattr(STDIN_FILENO, &attributes) == 0 else { return nil }
        // Swift's threads block these. In the background, reading would then fail instead of stopping the process, and no
        // handler would run on this thread.
        var stopping = sigset_t()
        sigemptyset(&stopping)
        for number in [SIGTTIN, SIGTTOU, SIGTSTP, SIGCONT] { sigaddset(&stopping, number) }
        pthread_sigmask(SIG_UNBLOCK, &stopping, &signalMask)
        ending = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].map { number in
            (number, Self.handle(number) { PasswordPrompt.end($0) })
        }
        Self.thread.store(pthread_self(), ordering: .sequentiallyConsistent)
        pausing = [
            (SIGTSTP, Self.handle(SIGTSTP) { if PasswordPrompt.isOnThread($0) { PasswordPrompt.stop($0) } }),
            (SIGCONT, Self.handle(SIGCONT) { if PasswordPrompt.isOnThread($0) { PasswordPrompt.askAgain() } }),
        ]
        Self.ask()
    }

    /// Turns the echo on. Must be called on the thread that has created the prompt.
    func finish() {
        // First the handlers that turn it off.
        for (number, previous) in pausing { signal(number, previous) }
        var attributes = attributes
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &attributes)
        for (number, previous) in ending { signal(number, previous) }
        var mask = signalMask
        pthread_sigmask(SIG_SETMASK, &mask, nil)
    }

    /// Handles a signal, unless the process was started to ignore it, as `nohup` does with SIGHUP.
    /// - Returns: The previous handler.
    private static func handle(_ number: Int32, _ handler: SignalHandler) -> SignalHandler? {
        let previous: SignalHandler? = signal(number, handler)
        // SIG_IGN is no function, and functions can be compared only as addresses.
        let isIgnored = unsafeBitCast(previous, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
        if isIgnored { signal(number, SIG_IGN) }
        return previous
    }
}

/// Called by signal handlers: only what is permitted there (POSIX.1-2017 XSH §2.4.3).
extension PasswordPrompt {
    private static func ask() {
        guard isInForeground else { return }
        let error = errno
        setEcho(false)
        let prompt: StaticString = "Password: "
        write(STDERR_FILENO, prompt.utf8Start, prompt.utf8CodeUnitCount)
        errno = error
    }

    /// Whether the handler runs on the thread that asks. Otherwise the signal is passed on to that thread: a handler that is
    /// late on another one would turn the echo off after the prompt has ended.
    private static func isOnThread(_ number: Int32) -> Bool {
        let thread = pthread_t(Self.thread.load(ordering: .sequentiallyConsistent))
        guard pthread_equal(pthread_self(), thread) == 0 else { return true }
        pthread_kill(thread, number)
        return false
    }

    /// Asks unless that was done: a process that continues does so in the handlers of both signals, in any order. The echo is
    /// off after the first one.
    private static func askAgain() {
        let error = errno
        defer { errno = error }
        var current = termios()
        guard tcgetattr(STDIN_FILENO, &current) == 0, current.c_lflag & tcflag_t(ECHO) != 0 else { return }
        ask()
    }

    private static func stop(_ number: Int32) {
        let error = errno
        setEcho(true)
        signal(number, SIG_DFL)
        raise(number)
        // The signal is blocked while it is handled. The process stops here, unless it has no shell to continue it.
        var handled = sigset_t()
        sigemptyset(&handled)
        sigaddset(&handled, number)
        pthread_sigmask(SIG_UNBLOCK, &handled, nil)
        signal(number) { if PasswordPrompt.isOnThread($0) { PasswordPrompt.stop($0) } }
        askAgain()
        errno = error
    }

    private static func end(_ number: Int32) {
        setEcho(true)
        signal(number, SIG_DFL)
        // The process ends when the handler returns.
        raise(number)
    }

    private static func setEcho(_ isOn: Bool) {
        var current = termios()
        guard isInForeground, tcgetattr(STDIN_FILENO, &current) == 0 else { return }
        if isOn { current.c_lflag |= tcflag_t(ECHO) } else { current.c_lflag &= ~tcflag_t(ECHO) }
        tcsetattr(STDIN_FILENO, isOn ? TCSANOW : TCSAFLUSH, &current)
    }

    /// In the background the shell uses the terminal, and changing it would stop the process. A terminal that does not
    /// control the process has no foreground.
    private static var isInForeground: Bool {
        let group = tcgetpgrp(STDIN_FILENO)
        return group < 0 || group == getpgrp()
    }
}
