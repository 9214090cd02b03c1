import DequeModule
import Dispatch
import Foundation
import Glibc
import Synchronization

/// Writes log lines to a file descriptor from a thread of its own, so that neither an event loop nor a task ever waits
/// for a slow reader. What does not fit into the bound is dropped and counted.
///
/// An event, such as an audit line, is dropped only if no traffic line waits that could be dropped instead: traffic lines
/// have no access to the last ``eventReserve`` bytes of the buffer, and make way if that is not enough.
///
/// A writer lives until ``shutdown(within:)``: its thread keeps it.
public final class LogWriter: Sendable {
    /// What lines are about, which decides on their order of being dropped.
    public enum LineKind: Sendable {
        /// Access log, spans, and log lines of level `info` and below: as many as there is traffic.
        case traffic
        /// Audit lines, and all other log lines of level `notice` and above.
        case event
    }

    /// Bytes that only events may use, beyond the bound of all lines.
    public static let eventReserve = 1 << 20
    /// Bytes that are written at once. What is being written cannot make way any more.
    private static let chunkSize = 256 << 10

    struct Batch {
        let bytes: [UInt8]
        let lines: Int
        let kind: LineKind
    }

    struct State {
        var waiting = Deque<Batch>()
        /// Bytes accepted and not yet written, those in the thread's hands included.
        var pendingBytes = 0
        /// Batches of traffic among those that wait.
        var waitingTraffic = 0
        /// Events that were dropped and that no line has reported yet.
        var unreportedEvents = 0
        var isClosing = false
    }

    private let state = Mutex(State())
    private let work = DispatchSemaphore(value: 0)
    private let finished = DispatchSemaphore(value: 0)
    private let isAbandoned = Atomic<Bool>(false)
    private let output: FileDescriptorOutput
    private let limit: Int
    private let dropped: CounterHandle
    private let droppedEvents: CounterHandle
    private let notice: @Sendable (_ events: Int) -> [UInt8]

    /// Starts the thread. SIGPIPE is ignored from here on in the whole process: a reader that goes away must not end it.
    ///
    /// - Parameters:
    ///   - fileDescriptor: where lines go, standard output by default; it stays the caller's to close, after ``shutdown(within:)``.
    ///   - pendingLimit: how many bytes may wait, besides ``eventReserve``.
    ///   - dropped: counts the traffic lines that were not written.
    ///   - droppedEvents: counts the events that were not written; `nil` counts them with the others.
    ///   - notice: renders the line which reports, once the output is written to again, that events were dropped.
    public init(
        fileDescriptor: Int32 = 1, pendingLimit: Int = 4 << 20, dropped: CounterHandle,
        droppedEvents: CounterHandle? = nil, notice: @escaping @Sendable (_ events: Int) -> [UInt8] = { _ in [] }
    ) {
        _ = signal(SIGPIPE, SIG_IGN)
        output = FileDescriptorOutput(fileDescriptor: fileDescriptor)
        limit = pendingLimit
        self.dropped = dropped
        self.droppedEvents = droppedEvents ?? dropped
        self.notice = notice
        let thread = Thread { [self] in run() }
        thread.name = "log-writer"
        thread.start()
    }

    /// Hands over whole lines, each with its line feed. Never waits for the output.
    public func submit(bytes: [UInt8], lines: Int, kind: LineKind = .traffic) {
        let (accepted, wasIdle, evicted) = state.withLock { state in
            guard !state.isClosing else { return (false, false, 0) }
            let room = kind == .event ? limit + Self.eventReserve : limit
            let wasIdle = state.waiting.isEmpty
            var evicted = 0
            if state.pendingBytes + bytes.count > room {
                // All at once, so that the next events need not search.
                if kind == .event, state.waitingTraffic > 0 { evicted = state.evictTraffic() }
                guard state.pendingBytes + bytes.count <= room else {
                    if kind == .event { state.unreportedEvents += lines }
                    return (false, false, evicted)
                }
            }
            state.waiting.append(Batch(bytes: bytes, lines: lines, kind: kind))
            if kind == .traffic { state.waitingTraffic += 1 }
            state.pendingBytes += bytes.count
            return (true, wasIdle, evicted)
        }
        if wasIdle { work.signal() }
        if evicted > 0 { dropped.increment(by: Int64(evicted)) }
        if !accepted { counter(kind).increment(by: Int64(lines)) }
    }

    private func counter(_ kind: LineKind) -> CounterHandle { kind == .event ? droppedEvents : dropped }

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
                let written = write(batch)
                let lost = state.withLock { state in
                    state.pendingBytes -= batch.bytes.count
                    // Not before the output takes lines again, or this one would be lost too.
                    guard written == batch.bytes.count else { return 0 }
                    defer { state.unreportedEvents = 0 }
                    return state.unreportedEvents
                }
                if lost > 0 { _ = output.write(notice(lost), isAbandoned: outputIsAbandoned) }
            }
            if state.withLock({ $0.isClosing && $0.waiting.isEmpty }) { break }
        }
        finished.signal()
    }

    private func write(_ piece: Chunk) -> Int {
        let written = output.write(piece.bytes, isAbandoned: outputIsAbandoned)
        guard written < piece.bytes.count else { return written }
        // What is cut off in the middle of a line is that line's loss.
        var end = 0
        for batch in piece.batches {
            let start = end
            end += batch.bytes.count
            guard written < end else { continue }
            let rest = batch.bytes[max(0, written - start)...]
            counter(batch.kind).increment(by: Int64(rest.count { $0 == UInt8(ascii: "\n") }))
        }
        return written
    }

    private func outputIsAbandoned() -> Bool { isAbandoned.load(ordering: .relaxed) }

    /// What is written at once.
    private struct Chunk {
        var bytes: [UInt8] = []
        var batches: [Batch] = []
    }

    /// What has waited longest, up to ``chunkSize`` or one batch: few large writes are cheaper than many small ones.
    private func nextBatch() -> Chunk? {
        let batches = state.withLock { state in
            var batches: [Batch] = []
            var size = 0
            while let batch = state.waiting.first, batches.isEmpty || size + batch.bytes.count <= Self.chunkSize {
                size += batch.bytes.count
                batches.append(state.waiting.removeFirst())
                if batch.kind == .traffic { state.waitingTraffic -= 1 }
            }
            return batches
        }
        guard let first = batches.first else { return nil }
        return Chunk(bytes: batches.count == 1 ? first.bytes : batches.flatMap(\.bytes), batches: batches)
    }
}

extension LogWriter.State {
    /// Drops the traffic lines that wait.
    /// - Returns: How many lines there were.
    fileprivate mutating func evictTraffic() -> Int {
        var lines = 0
        var bytes = 0
        waiting.removeAll { batch in
            guard batch.kind == .traffic else { return false }
            lines += batch.lines
            bytes += batch.bytes.count
            return true
        }
        pendingBytes -= bytes
        waitingTraffic = 0
        return lines
    }
}
