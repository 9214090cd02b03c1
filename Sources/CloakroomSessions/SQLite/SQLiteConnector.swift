import CloakroomCore
import Dispatch
import GRDB
import Glibc
import Synchronization

/// Opens the file when it is needed and carries operations out on it, off the cooperative threads.
///
/// A file that cannot be opened is tried again at most once a second, by whoever asks then.
final class SQLiteConnector: Sendable {
    private enum State {
        case closed(retryAt: ContinuousClock.Instant?)
        case open(SQLiteFile)
    }

    /// How long to leave a file alone that could not be opened.
    static let pause = Duration.seconds(1)
    /// An operation that waited its turn for longer is not begun: its caller has waited enough, and where a lock is held
    /// for long, each would wait for it anew.
    private static let patience = Duration.seconds(2)
    /// Operations under way; more are refused, so that a disk that hangs cannot fill the memory.
    private static let maxConcurrentOperations = 8_192

    private let path: String
    private let log: SQLiteFailureLog
    private let opening = DispatchQueue(label: "cloakroom.sessions.opening")
    private let state = Mutex(State.closed(retryAt: nil))
    private let inFlight = Atomic<Int>(0)

    init(path: String, log: SQLiteFailureLog) {
        self.path = path
        self.log = log
    }

    /// The file, opened if it has to be.
    func file() async throws(SessionStoreError) -> SQLiteFile {
        if case .open(let file) = state.withLock({ $0 }) { return file }
        let file = await withCheckedContinuation { (continuation: CheckedContinuation<SQLiteFile?, Never>) in
            opening.async { continuation.resume(returning: self.opened()) }
        }
        guard let file else { throw SessionStoreError(.unavailable) }
        return file
    }

    /// Whether a file that was opened is still the one in use.
    func isCurrent(_ file: SQLiteFile) -> Bool {
        if case .open(let current) = state.withLock({ $0 }) { current === file } else { false }
    }

    /// Reads what is committed. Each statement sees the latest; there is no snapshot over several.
    func read<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(SessionStoreError) -> Value {
        try await perform(.reading) { file, latest, resume in
            file.reading.asyncWriteWithoutTransaction { [path] db in
                resume(Outcome(path, latest) { try body(db) })
            }
        }
    }

    /// Writes all or nothing. It is done, or known not to be done, when this returns; a caller that is cancelled
    /// meanwhile changes nothing about that.
    /// - Parameter body: May be called more than once; only one of the calls counts.
    func write<Value: Sendable>(
        _ durability: SQLiteDurability, _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(SessionStoreError) -> Value {
        try await perform(.writing) { file, latest, resume in
            let path = path
            file.writer.submit(
                SQLiteWrite(durability: durability, latest: latest) { db in
                    let value = try body(db)
                    return { resume(.done(value)) }
                } fail: { failure in
                    switch failure {
                    case .error(let error): resume(.failed(SQLiteStoreError(error, path: path)))
                    case .timedOut: resume(.timedOut)
                    }
                })
        }
    }

    /// Works on the connection that watches.
    func watch<Value: Sendable>(
        _ file: SQLiteFile, _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(SessionStoreError) -> Value {
        try await perform(.reading, on: file) { file, latest, resume in
            file.watching.asyncWriteWithoutTransaction { [path] db in
                resume(Outcome(path, latest) { try body(db) })
            }
        }
    }

    /// Lets go of a file that is not where it was.
    func verifyFileIdentity(of file: SQLiteFile) async {
        let isSameFile = await withCheckedContinuation { continuation in
            opening.async { continuation.resume(returning: file.isSameFile) }
        }
        if !isSameFile { note(SQLiteStoreError(.moved, path: path), in: .reading, of: file) }
    }

    private typealias Resume<Value: Sendable> = @Sendable (Outcome<Value>) -> Void

    private func perform<Value: Sendable>(
        _ task: SQLiteFailureLog.Operation, on given: SQLiteFile? = nil,
        _ start: (SQLiteFile, _ latest: ContinuousClock.Instant, @escaping Resume<Value>) -> Void
    ) async throws(SessionStoreError) -> Value {
        guard inFlight.add(1, ordering: .relaxed).newValue <= Self.maxConcurrentOperations else {
            inFlight.subtract(1, ordering: .relaxed)
            throw SessionStoreError(.unavailable)
        }
        defer { inFlight.subtract(1, ordering: .relaxed) }
        let file = if let given { given } else { try await file() }
        let latest = ContinuousClock.now + Self.patience
        // GRDB's own async methods end with the task that calls them: a client that goes away must not keep renewed tokens
        // from being saved. These go on, and are bounded by themselves.
        let outcome = await withCheckedContinuation { (continuation: CheckedContinuation<Outcome<Value>, Never>) in
            start(file, latest) { continuation.resume(returning: $0) }
        }
        switch outcome {
        case .done(let value):
            log.succeeded(task)
            return value
        case .failed(let error):
            note(error, in: task, of: file)
        case .timedOut:
            break
        }
        throw SessionStoreError(.unavailable)
    }

    private enum Outcome<Value: Sendable>: Sendable {
        case done(Value)
        case failed(SQLiteStoreError)
        case timedOut

        /// Does something unless it waited its turn for too long.
        init(_ path: String, _ latest: ContinuousClock.Instant, _ body: () throws -> Value) {
            guard ContinuousClock.now < latest else {
                self = .timedOut
                return
            }
            do {
                self = .done(try body())
            } catch {
                self = .failed(SQLiteStoreError(error, path: path))
            }
        }
    }

    private func note(_ error: SQLiteStoreError, in task: SQLiteFailureLog.Operation, of file: SQLiteFile) {
        log.failed(task, error)
        guard error.needsReopening else { return }
        state.withLock { state in
            // Others may have failed in the same way and have opened it anew since.
            guard case .open(let current) = state, current === file else { return }
            state = .closed(retryAt: ContinuousClock.now + Self.pause)
        }
    }

    /// Two processes that make the file at the same time get in each other's way, in steps for which SQLite does not wait
    /// by itself.
    private func openWithRetry() throws(SQLiteStoreError) -> SQLiteFile {
        let latest = ContinuousClock.now + Self.patience
        while true {
            do throws(SQLiteStoreError) {
                return try SQLiteFile(path: path)
            } catch {
                guard error.isBusy, ContinuousClock.now < latest else { throw error }
                usleep(useconds_t.random(in: 1_000...20_000))
            }
        }
    }

    /// On the queue for opening only, so that one opens and the others find it open.
    private func opened() -> SQLiteFile? {
        switch state.withLock({ $0 }) {
        case .open(let file): return file
        case .closed(let retryAt):
            if let retryAt, ContinuousClock.now < retryAt { return nil }
        }
        do throws(SQLiteStoreError) {
            let file = try openWithRetry()
            state.withLock { $0 = .open(file) }
            log.succeeded(.opening)
            return file
        } catch {
            log.failed(.opening, error)
            state.withLock { $0 = .closed(retryAt: ContinuousClock.now + Self.pause) }
            return nil
        }
    }
}
