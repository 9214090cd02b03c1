import Dispatch
import Foundation
import Glibc
import Synchronization

/// Writes log lines to a file descriptor from a thread of its own, so that neither an event loop nor a task ever waits
/// for a slow reader. What does not fit into the bound is dropped and counted.
///
/// A writer lives until ``shutdown(within:)``: its thread keeps it.
public final class LogWriter: Sendable {
    struct Batch {
        let bytes: [UInt8]
        let lines: Int
    }

    struct State {
        var waiting: [Batch] = []
        /// Bytes accepted and not yet written, those in the thread's hands included.
        var pendingBytes = 0
        var isClosing = false
    }

    private let state = Mutex(State())
    private let work = DispatchSemaphore(value: 0)
    private let finished = DispatchSemaphore(value: 0)
    private let isAbandoned = Atomic<Bool>(false)
    private let output: LineOutput
    private let limit: Int
    private let dropped: CounterHandle

    /// Starts the thread. SIGPIPE is ignored from here on in the whole process: a reader that goes away must not end it.
    ///
    /// - Parameters:
    ///   - fileDescriptor: where lines go, standard output by default; it stays the caller's to close, after ``shutdown(within:)``.
    ///   - pendingLimit: how many bytes may wait.
    ///   - dropped: counts the lines that were not written.
    public init(fileDescriptor: Int32 = 1, pendingLimit: Int = 4 << 20, dropped: CounterHandle) {
        _ = signal(SIGPIPE, SIG_IGN)
        output = LineOutput(fileDescriptor: fileDescriptor)
        limit = pendingLimit
        self.dropped = dropped
        let thread = Thread { [self] in run() }
        thread.name = "log-writer"
        thread.start()
    }

    /// Hands over whole lines, each with its line feed. Never waits for the output.
    public func submit(bytes: [UInt8], lines: Int) {
        let (accepted, wasIdle) = state.withLock { state in
            guard !state.isClosing, state.pendingBytes + bytes.count <= limit else { return (false, false) }
            let wasIdle = state.waiting.isEmpty
            state.waiting.append(Batch(bytes: bytes, lines: lines))
            state.pendingBytes += bytes.count
            return (true, wasIdle)
        }
        if wasIdle { work.signal() }
        if !accepted { dropped.increment(by: Int64(lines)) }
    }

    /// Writes what is waiting and ends the thread. When the output is stuck for longer than the bound, what is left is
    /// given up. Nothing is accepted afterwards. Blocks for the bound at most, and may be called again.
    ///
    /// - Returns: whether the thread ended in time.
    @discardableResult
    public func shutdown(within bound: Duration = .seconds(2)) -> Bool {
        state.withLock { $0.isClosing = true }
        work.signal()
        let (seconds, attoseconds) = bound.components
        let wait = DispatchTimeInterval.nanoseconds(Int(seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000))
        guard finished.wait(timeout: .now() + wait) == .success else {
            isAbandoned.store(true, ordering: .relaxed)
            return false
        }
        // Whoever asks again is told the same.
        finished.signal()
        return true
    }

    private func run() {
        while true {
            work.wait()
            while let batch = nextBatch() {
                let written = output.write(batch.bytes) { self.isAbandoned.load(ordering: .relaxed) }
                if written < batch.bytes.count {
                    dropped.increment(by: Int64(batch.bytes[written...].count { $0 == UInt8(ascii: "\n") }))
                }
                state.withLock { $0.pendingBytes -= batch.bytes.count }
            }
            if state.withLock({ $0.isClosing && $0.waiting.isEmpty }) { break }
        }
        finished.signal()
    }

    /// Everything that waits, as one piece: few large writes are cheaper than many small ones.
    private func nextBatch() -> Batch? {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        guard waiting.count > 1 else { return waiting.first }
        return Batch(bytes: waiting.flatMap(\.bytes), lines: waiting.reduce(0) { $0 + $1.lines })
    }
}
