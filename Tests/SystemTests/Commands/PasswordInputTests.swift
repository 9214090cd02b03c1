import Foundation
import Glibc
import NIOCore
import TestSupport
import Testing

/// The password of `cloakroom doctor`, from a terminal and from a pipe.
@Suite("The password of doctor", .serialized, .timeLimit(.minutes(2)))
struct PasswordInputTests {
    private static let arguments = ["doctor", "--config", "cloakroom.yaml", "--user", "jo@example.com"]

    private func configured() throws -> TemporaryDirectory {
        let directory = try TemporaryDirectory()
        try directory.write(GatewayYAML(upstream: "http://127.0.0.1:9").yaml, to: "cloakroom.yaml")
        return directory
    }

    /// The side of a new pseudo terminal that a program uses. Both sides must be closed.
    private func makeTerminal() throws -> (controller: Int32, terminal: Int32) {
        let controller = open("/dev/ptmx", O_RDWR | O_NOCTTY)
        var number: Int32 = 0
        // TIOCSPTLCK permits to open the terminal, and TIOCGPTN returns its number (tty_ioctl(4), pts(4)).
        guard controller >= 0, ioctl(controller, 0x4004_5431, &number) == 0,
            ioctl(controller, 0x8004_5430, &number) == 0
        else {
            throw IOError(errnoCode: errno, reason: "ptmx")
        }
        let terminal = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY)
        guard terminal >= 0 else { throw IOError(errnoCode: errno, reason: "open") }
        return (controller, terminal)
    }

    private func hasEcho(_ terminal: Int32) -> Bool {
        var attributes = termios()
        return tcgetattr(terminal, &attributes) == 0 && attributes.c_lflag & tcflag_t(ECHO) != 0
    }

    /// Runs the command at a terminal up to its prompt, and returns when it has ended. Then the terminal shows input.
    /// - Parameter shell: The words that start the command, if it is not started directly.
    private func atPrompt(
        by shell: [String] = [], _ act: (ChildProcess, _ controller: Int32) -> Void
    ) async throws -> (ending: ChildProcess.Ending?, output: String) {
        let directory = try configured()
        let (controller, terminal) = try makeTerminal()
        defer {
            close(terminal)
            close(controller)
        }
        expect(hasEcho(terminal))
        let words = shell + [try Executables.cloakroom().path] + Self.arguments
        let process = try ChildProcess(
            words[0], Array(words.dropFirst()), directory: directory.url.path, input: .descriptor(terminal),
            output: .file(directory.path(of: "output")))
        while process.isRunning, hasEcho(terminal) { try await Task.sleep(for: .milliseconds(10)) }
        expect(process.isRunning)
        act(process, controller)
        while process.isRunning { try await Task.sleep(for: .milliseconds(10)) }
        expect(hasEcho(terminal))
        return (process.ending, directory.text(of: "output"))
    }

    private func type(at controller: Int32) {
        let typed = Array("secret\n".utf8)
        expect(write(controller, typed, typed.count), equals: typed.count)
    }

    @Test(
        "A signal at the prompt ends the command, and the terminal shows input again",
        arguments: [SIGHUP, SIGINT, SIGTERM])
    func interrupted(number: Int32) async throws {
        let run = try await atPrompt { process, _ in process.signal(number) }
        expect(run.ending, equals: ChildProcess.Ending(status: number, wasKilled: true))
    }

    @Test("A signal that the command was started to ignore does not end it, and a password from a terminal is one line")
    func ignored() async throws {
        let run = try await atPrompt(by: ["/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]) { process, controller in
            process.signal(SIGHUP)
            type(at: controller)
        }
        // The upstream is not running.
        expect(run.ending, equals: ChildProcess.Ending(status: 1))
        expect(run.output.contains("no connection"))
    }

    @Test("Ctrl-Z at the prompt: the shell's terminal shows input, and the command asks again in the foreground")
    func stopped() async throws {
        struct Event: Decodable, Equatable {
            var signal: Int32?
            var status: Int32?
            var echo: Bool
            var prompts: Int
        }
        let directory = try configured()
        let run = try await ChildProgram.run(
            try Executables.onPath("python3", package: "python3"),
            [
                Executables.packageDirectory.appending(path: "Tests/SystemTests/Support/stopped_job.py").path,
                try Executables.cloakroom().path,
            ] + Self.arguments, directory: directory.url)
        let events = try run.output.split(separator: "\n").map {
            try JSONDecoder().decode(Event.self, from: Data($0.utf8))
        }
        expect(
            events,
            equals: [
                Event(echo: false, prompts: 1),
                Event(signal: SIGTSTP, echo: true, prompts: 1),
                // Continued in the background, it must not take the terminal.
                Event(signal: SIGTTIN, echo: true, prompts: 1),
                Event(echo: false, prompts: 2),
                // The upstream is not running.
                Event(status: 1, echo: true, prompts: 2),
            ], "\(run.output)\(run.errors)")
    }

    @Test(
        "A password of more than 4096 bytes is rejected, from a pipe and from a file, and not printed",
        arguments: [4_096, 4_097, 1_000_000])
    func length(bytes: Int) async throws {
        let directory = try configured()
        let password = String(repeating: "p", count: bytes) + "\n"
        try directory.write(password, to: "password")
        for more in [[], ["--password-file", "-"], ["--password-file", "password"]] {
            let run = try await cloakroom(Self.arguments + more, directory: directory.url, input: password)
            expect(run.ending.status, equals: (bytes > 4_096 ? 64 : 1), "\(more)")
            expect(run.errors.contains("the password is longer than 4096 bytes (write it "), equals: bytes > 4_096)
            expect(!(run.output + run.errors).contains("pppp"))
        }
    }
}
