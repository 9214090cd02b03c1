import Foundation
import Glibc
import Synchronization

/// A child process that inherits only its standard streams. Foundation's `Process` is not safe here: it lists the open
/// descriptors while other threads open and close some.
package final class ChildProcess: Sendable {
    /// A standard stream of the child.
    package enum Stream: Sendable {
        case null
        /// A file; as an output it is created or made empty.
        case file(String)
        /// A descriptor of this process, which stays open here.
        case descriptor(Int32)
    }

    /// How a process ended.
    package struct Ending: Sendable, Equatable {
        /// The exit status, or the number of the signal.
        package let status: Int32
        /// Whether a signal ended the process.
        package let wasKilled: Bool

        /// Creates an ending.
        package init(status: Int32, wasKilled: Bool = false) {
            self.status = status
            self.wasKilled = wasKilled
        }
    }

    /// The process could not be started.
    package struct CannotStart: Error, CustomStringConvertible {
        package let description: String
    }

    private struct State {
        var ending: Ending?
        var waiting: [@Sendable (Ending) -> Void] = []
    }

    /// The process identifier; it may belong to another process after the end.
    package let processIdentifier: Int32
    private let state = Mutex(State())

    /// Starts a process in a process group of its own.
    /// - Parameters:
    ///   - program: A path, or a name that is found through this process's `PATH`.
    ///   - directory: The working directory; by default the one of this process.
    ///   - environment: The complete environment; by default the one of this process.
    /// - Throws: ``CannotStart``, which names the program or the file.
    package init(
        _ program: String, _ arguments: [String] = [], directory: String? = nil, environment: [String: String]? = nil,
        input: Stream = .null, output: Stream = .null, errors: Stream = .null
    ) throws {
        let writing = O_WRONLY | O_CREAT | O_TRUNC
        var opened: [Int32] = []
        defer { for descriptor in opened { close(descriptor) } }
        for (stream, flags) in [(input, O_RDONLY), (output, writing), (errors, writing)] {
            opened.append(try Self.open(stream, flags, for: program))
        }
        processIdentifier = try Self.spawn(
            program, arguments, directory: directory,
            environment: environment ?? ProcessInfo.processInfo.environment, streams: opened)
        Thread.detachNewThread { self.reap() }
    }

    /// How the process ended; `nil` while it runs.
    package var ending: Ending? { state.withLock { $0.ending } }

    package var isRunning: Bool { ending == nil }

    /// Sends a signal if the process has not ended.
    package func signal(_ number: Int32) {
        // The process is reaped with the same lock, so the identifier still belongs to it.
        state.withLock { if $0.ending == nil { _ = kill(processIdentifier, number) } }
    }

    /// Calls back once when the process has ended; immediately if it has.
    package func whenEnded(_ callback: @escaping @Sendable (Ending) -> Void) {
        let ending = state.withLock { state in
            if state.ending == nil { state.waiting.append(callback) }
            return state.ending
        }
        if let ending { callback(ending) }
    }

    /// Waits until the process has ended.
    @discardableResult
    package func ends() async -> Ending {
        await withCheckedContinuation { continuation in whenEnded { continuation.resume(returning: $0) } }
    }

    /// Blocks the thread until the process has ended.
    package func waitUntilEnd() -> Ending {
        let semaphore = DispatchSemaphore(value: 0)
        whenEnded { _ in semaphore.signal() }
        semaphore.wait()
        return ending ?? Ending(status: -1)
    }

    private func reap() {
        var information = siginfo_t()
        // The process stays a zombie, so that its identifier is not used again before the lock is held.
        while waitid(P_PID, id_t(processIdentifier), &information, WEXITED | WNOWAIT) != 0 {
            precondition(errno == EINTR, "the process \(processIdentifier) was reaped elsewhere")
        }
        let (ending, waiting) = state.withLock { state in
            var status: Int32 = 0
            while waitpid(processIdentifier, &status, 0) < 0 {
                precondition(errno == EINTR, "the process \(processIdentifier) was reaped elsewhere")
            }
            let signal = status & 0x7F
            let ending = Ending(status: signal == 0 ? (status >> 8) & 0xFF : signal, wasKilled: signal != 0)
            state.ending = ending
            defer { state.waiting = [] }
            return (ending, state.waiting)
        }
        for callback in waiting { callback(ending) }
    }

    /// A new descriptor above the standard ones, so that no stream replaces the source of another.
    private static func open(_ stream: Stream, _ flags: Int32, for program: String) throws -> Int32 {
        let (source, name): (Int32, String) =
            switch stream {
            case .null: (Glibc.open("/dev/null", O_RDWR | O_CLOEXEC), "/dev/null")
            case .file(let path): (Glibc.open(path, flags | O_CLOEXEC, 0o600), path)
            case .descriptor(let descriptor): (descriptor, "descriptor \(descriptor)")
            }
        let descriptor = source < 0 ? -1 : fcntl(source, F_DUPFD_CLOEXEC, 3)
        let code = errno
        if source >= 0, case .descriptor = stream {} else if source >= 0 { close(source) }
        guard descriptor >= 0 else { throw CannotStart(description: "\(program): \(name): \(text(code))") }
        return descriptor
    }

    private static func spawn(
        _ program: String, _ arguments: [String], directory: String?, environment: [String: String], streams: [Int32]
    ) throws -> Int32 {
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        try check(posix_spawn_file_actions_init(&actions), program)
        defer { posix_spawn_file_actions_destroy(&actions) }
        try check(posix_spawnattr_init(&attributes), program)
        defer { posix_spawnattr_destroy(&attributes) }
        for (target, source) in streams.enumerated() {
            try check(posix_spawn_file_actions_adddup2(&actions, source, Int32(target)), program)
        }
        if let directory { try check(Additions.changeDirectory(&actions, directory), program) }
        try check(Additions.closeFrom(&actions, 3), program)
        var (none, all) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        sigfillset(&all)
        try check(posix_spawnattr_setsigmask(&attributes, &none), program)
        try check(posix_spawnattr_setsigdefault(&attributes, &all), program)
        let flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP
        try check(posix_spawnattr_setflags(&attributes, Int16(flags)), program)

        let words = ([program] + arguments).map { strdup($0) } + [nil]
        let variables = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for word in words + variables { free(word) } }
        var identifier: pid_t = 0
        let code = posix_spawnp(&identifier, program, &actions, &attributes, words, variables)
        try check(code, directory.map { "\(program) in \($0)" } ?? program)
        return identifier
    }

    private static func check(_ code: Int32, _ what: String) throws {
        guard code == 0 else { throw CannotStart(description: "cannot start \(what): \(text(code))") }
    }

    private static func text(_ code: Int32) -> String { String(cString: strerror(code)) }

    /// Functions of glibc (2.34 or later) that its Swift module does not contain.
    private enum Additions {
        typealias Actions = UnsafeMutablePointer<posix_spawn_file_actions_t>
        typealias ChangeDirectory = @convention(c) (Actions, UnsafePointer<CChar>) -> Int32
        typealias CloseFrom = @convention(c) (Actions, Int32) -> Int32

        static func changeDirectory(_ actions: Actions, _ path: String) -> Int32 {
            guard let function = dlsym(nil, "posix_spawn_file_actions_addchdir_np") else { return ENOSYS }
            return unsafeBitCast(function, to: ChangeDirectory.self)(actions, path)
        }

        static func closeFrom(_ actions: Actions, _ first: Int32) -> Int32 {
            guard let function = dlsym(nil, "posix_spawn_file_actions_addclosefrom_np") else { return ENOSYS }
            return unsafeBitCast(function, to: CloseFrom.self)(actions, first)
        }
    }
}
