import CloakroomCore
import Dispatch
import Glibc
import Synchronization

/// Opens the file on demand and runs operations on it, outside the cooperative thread pool.
///
/// If opening fails, later operations try again, at most once per second.
final class SQLiteConnector: Sendable {
    private struct State {
        /// The open file, if any.
        var file: SQLiteFile?
        /// A file that was closed may still have operations in flight. Another one is opened only after they have ended:
        /// if only the database was moved, both would use the same two accompanying files.
        weak var previous: SQLiteFile?
        /// The identity of the last file.
        var identity: SQLiteFile.Identity?
        var retryAt: ContinuousClock.Instant?
        /// When the file was last reopened because it is damaged.
        var damagedAt: ContinuousClock.Instant?
    }

    /// The minimum time between two attempts to open the file.
    static let pause = Duration.seconds(1)
    /// The minimum time between two reopenings of a damaged file: its intact parts remain in use meanwhile.
    private static let damagePause = Duration.seconds(60)
    /// The number of places that ``test()`` tries.
    private static let testPlaces = 20
    /// An operation that was queued for longer is not started. Otherwise, if a lock is held for long, each queued
    /// operation would wait for it again.
    private static let patience = Duration.seconds(2)
    /// The maximum number of operations in flight. More are rejected, so that a hanging disk cannot exhaust the memory.
    static let maxConcurrentOperations = 8_192

    private let path: String
    private let log: SQLiteFailureLog
    private let opening = DispatchQueue(label: "cloakroom.sessions.opening")
    private let state = Mutex(State())
    private let inFlight = Atomic<Int>(0)

    init(path: String, log: SQLiteFailureLog) {
        self.path = path
        self.log = log
    }

    /// The file, opened if necessary.
    func file() async throws(SessionStoreError) -> SQLiteFile {
        if let file = state.withLock({ $0.file }) { return file }
        let file = await withCheckedContinuation { (continuation: CheckedContinuation<SQLiteFile?, Never>) in
            opening.async { continuation.resume(returning: self.opened()) }
        }
        guard let file else { throw SessionStoreError(.unavailable) }
        return file
    }

    /// Whether an opened file is still the current one.
    func isCurrent(_ file: SQLiteFile) -> Bool { state.withLock { $0.file === file } }

    /// Whether any kind of operation fails, according to the log.
    var isFailing: Bool { log.isFailing }
    /// Whether ``test()`` is needed to show whether the store can be used.
    var needsTest: Bool { log.isFailing(.writing) || isDamaged }
    /// Whether data are damaged, at least those of single sessions.
    var isDamaged: Bool { log.isFailing(.damaged) }

    /// Reads committed data. Each statement sees the latest data; there is no snapshot over several statements.
    /// - Parameter watched: The file to read on the connection that polls for changes; `nil` for the current file.
    func read<Value: Sendable>(
        watching watched: SQLiteFile? = nil, _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(SessionStoreError) -> Value {
        try await perform(
            .reading, failure: { watched == nil && $0.isDamage ? .damaged : .reading }, on: watched
        ) { file, latest, result in
            (watched == nil ? file.reading : file.watching).async { db in
                result.resume(
                    with: Result {
                        guard ContinuousClock.now < latest else { throw SQLiteQueueTimeout() }
                        return (try body(db), isProof: true)
                    })
            }
        }
    }

    /// Runs an atomic write. When this returns, the write is committed or known to have failed. Cancelling the caller
    /// does not affect it.
    /// - Parameter body: May be called more than once; only one of the calls takes effect.
    func write<Value: Sendable>(
        _ durability: SQLiteDurability, _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(SessionStoreError) -> Value {
        try await write(durability, failure: { $0.isDamage ? .damaged : .writing }, body: body)
    }

    /// Shows whether a session could be stored and read; the result is in the log. Only damage at many places in
    /// succession is a failure: there may be few pages, one of them damaged.
    func test() async {
        var isDamaged = true
        for attempt in 1...Self.testPlaces where isDamaged {
            isDamaged = false
            try? await write(
                .full,
                failure: { error in
                    isDamaged = error.isDamage
                    return isDamaged && attempt < Self.testPlaces ? .damaged : .writing
                }, body: { try $0.testWrite() })
        }
    }

    private func write<Value: Sendable>(
        _ durability: SQLiteDurability, failure: (SQLiteStoreError) -> SQLiteFailureLog.Operation,
        body: @escaping @Sendable (Database) throws -> Value
    ) async throws(SessionStoreError) -> Value {
        try await perform(.writing, failure: failure) { file, latest, result in
            let (path, identity) = (path, file.identity)
            file.writer.submit(
                SQLiteWrite(durability: durability, latest: latest) { db in
                    let changes = db.totalChangesCount
                    let value = try body(db)
                    let hasWritten = db.totalChangesCount != changes
                    // Data in a file that was moved is lost, so a client must not rely on it.
                    if durability == .full, SQLiteFile.Identity(path: path) != identity {
                        throw SQLiteStoreError(.moved, path: path)
                    }
                    return { result.resume(returning: (value, isProof: hasWritten)) }
                } fail: {
                    result.resume(throwing: $0)
                })
        }
    }

    /// Closes a file that was moved or replaced.
    func verifyFileIdentity(of file: SQLiteFile) async {
        let isSameFile = await withCheckedContinuation { continuation in
            opening.async { continuation.resume(returning: file.isSameFile) }
        }
        if !isSameFile {
            note(SQLiteStoreError(.moved, path: path), in: .reading, of: file)
        } else if isCurrent(file) {
            // These, too, end after a minute without another failure.
            log.succeeded(.opening)
            log.succeeded(.damaged)
        }
    }

    /// `isProof`: whether the operation shows that others of its kind can succeed. One that writes nothing does not.
    private typealias Resumption<Value> = CheckedContinuation<(Value, isProof: Bool), any Error>

    private func perform<Value: Sendable>(
        _ task: SQLiteFailureLog.Operation, failure: (SQLiteStoreError) -> SQLiteFailureLog.Operation,
        on given: SQLiteFile? = nil,
        _ start: (SQLiteFile, _ latest: ContinuousClock.Instant, Resumption<Value>) -> Void
    ) async throws(SessionStoreError) -> Value {
        guard inFlight.add(1, ordering: .relaxed).newValue <= Self.maxConcurrentOperations else {
            inFlight.subtract(1, ordering: .relaxed)
            throw SessionStoreError(.unavailable)
        }
        defer { inFlight.subtract(1, ordering: .relaxed) }
        let file = if let given { given } else { try await file() }
        let latest = ContinuousClock.now + Self.patience
        do {
            // Not ended with the calling task: a cancelled request must not prevent saving refreshed tokens. Operations
            // are bounded by their own limits.
            let (value, isProof) = try await withCheckedThrowingContinuation { start(file, latest, $0) }
            if isProof { log.succeeded(task) }
            return value
        } catch {
            if !(error is SQLiteQueueTimeout) {
                let error = SQLiteStoreError(error, path: path)
                note(error, in: failure(error), of: file)
            }
            throw SessionStoreError(.unavailable)
        }
    }

    private func note(_ error: SQLiteStoreError, in task: SQLiteFailureLog.Operation, of file: SQLiteFile) {
        log.failed(task, error)
        guard error.needsReopening, task != .damaged else { return }
        state.withLock { state in
            // Other operations may have failed in the same way and have reopened the file since.
            guard state.file === file else { return }
            let now = ContinuousClock.now
            if error.isDamage {
                if let last = state.damagedAt, now - last < Self.damagePause { return }
                state.damagedAt = now
            }
            (state.file, state.previous) = (nil, file)
            state.retryAt = error.isDamage ? now : now + Self.pause
        }
    }

    /// Two processes that create the file at the same time conflict in steps for which SQLite does not wait by itself,
    /// so opening is retried.
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

    /// On the queue for opening only, so that one operation opens the file and the others find it open.
    private func opened() -> SQLiteFile? {
        let (open, isDue) = state.withLock { state in
            (state.file, state.previous == nil && state.retryAt.map { $0 <= .now } ?? true)
        }
        guard open == nil, isDue else { return open }
        do throws(SQLiteStoreError) {
            let file = try openWithRetry()
            let isOther = state.withLock { state in
                defer { (state.file, state.identity) = (file, file.identity) }
                return state.identity != file.identity
            }
            if isOther { log.fileReplaced() } else { log.succeeded(.opening) }
            return file
        } catch {
            log.failed(.opening, error)
            state.withLock { $0.retryAt = ContinuousClock.now + Self.pause }
            return nil
        }
    }
}
